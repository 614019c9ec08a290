package wiring

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/rfs/stream/resend"
)

// failedStorage opens the files of failed documents of a session, or what it has recorded.
func failedStorage(ctx context.Context, o Options, from *resend.State) (redrive.Storage, error) {
	if o.recorded {
		return from.Recorded(), nil
	}
	if !repo.IsBucket(o.FailedDir) {
		return from.Own(ctx, redrive.Folder(o.FailedDir))
	}
	read, err := repo.Open(ctx, o.FailedDir, o.stores)
	if err != nil {
		return nil, fmt.Errorf("failed documents: %w", err)
	}
	write, err := repo.OpenBucket(ctx, o.FailedDir, o.stores, retry.Policy{})
	if err != nil {
		return nil, fmt.Errorf("failed documents: %w", err)
	}
	return from.Own(ctx, redrive.Objects{Read: read, Put: write.PutFrom, Session: o.SessionOrDefault()})
}

// sourceOf opens what the session has read, with --repo-uri the snapshot, with --from the files of an import; else nil.
func sourceOf(ctx context.Context, o Options, from *resend.State, in *Resources, log *slog.Logger) (redrive.Source, error) {
	switch {
	case o.from != "":
		files, err := OpenFiles(ctx, o)
		if err != nil {
			return nil, err
		}
		return from.Files(ctx, importer.Comparison{Source: files, MaxDocument: o.maxDocument, Memory: in.Memory, Frames: budget.New(importer.MaxBack, 0), Log: log})
	case o.repoURI != "":
		blobs, err := repo.OpenFederation(ctx, o.repoURI, o.remotes, o.stores)
		if err != nil {
			return nil, fmt.Errorf("repository %s: %w", o.repoURI, err)
		}
		again, err := from.Snapshot(ctx, blobs, o.rules)
		if err != nil {
			return nil, err
		}
		again.Memory, again.MaxDocument = in.Memory, o.maxDocument
		return again, nil
	}
	return nil, nil
}

// newRedriveAccount returns the account of the storage of o. A directory is known by host and path.
func newRedriveAccount(o Options, kept *cms.Coordinator) (session.PlaceAccount, error) {
	if o.recorded {
		return session.PlaceAccount{Records: session.RedrivesOf(kept), Place: resend.ControlIndex, All: true}, nil
	}
	at, err := o.failedAt()
	if err != nil {
		return session.PlaceAccount{}, err
	}
	return session.PlaceAccount{Records: session.RedrivesOf(kept), Place: at.Name(), Bucket: at.Host == ""}, nil
}
