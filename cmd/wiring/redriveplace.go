package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

const controlIndex = "control index"

// failedPlace opens the files of failed documents of a session, or what it has recorded. kept is nil for a session whose state was
// removed.
func failedPlace(ctx context.Context, o Options, kept *cms.Coordinator) (redrive.Place, error) {
	if o.recorded {
		return recordedPlace(kept), nil
	}
	place, err := failedFiles(ctx, o)
	if err != nil || kept == nil {
		return place, err
	}
	mark, err := session.IdentityOf(kept).Mark(ctx)
	return ownFiles{place, mark}, err
}

// ownFiles leaves out the files of other sessions, such as one of the same name whose state was removed.
type ownFiles struct {
	redrive.Place
	mark string
}

// Names returns the names of the session's files.
func (p ownFiles) Names(ctx context.Context) ([]string, error) {
	all, err := p.Place.Names(ctx)
	return slices.DeleteFunc(all, func(name string) bool { return failed.OfAnother(name, p.mark) }), err
}

// failedFiles opens the files of failed documents.
func failedFiles(ctx context.Context, o Options) (redrive.Place, error) {
	if !config.InBucket(o.FailedDir) {
		return redrive.Folder(o.FailedDir), nil
	}
	read, err := repo.Open(ctx, o.FailedDir, o.stores)
	if err != nil {
		return nil, fmt.Errorf("failed documents: %w", err)
	}
	write, err := repo.OpenBucket(ctx, o.FailedDir, o.stores, retry.Policy{})
	if err != nil {
		return nil, fmt.Errorf("failed documents: %w", err)
	}
	return redrive.Objects{Read: read, Put: write.PutFrom, Session: o.SessionOrDefault()}, nil
}

// recordedPlace lists what a fleet has recorded of its failed documents.
func recordedPlace(kept *cms.Coordinator) redrive.Recorded {
	return redrive.Recorded{
		Name: controlIndex,
		List: func(ctx context.Context) iter.Seq2[redrive.Record, error] {
			return func(yield func(redrive.Record, error) bool) {
				for d, err := range session.RefusalsOf(kept).All(ctx) {
					f := doc.Failure{Index: d.Index, ID: d.ID, Shard: d.Shard, Ordinal: d.Ordinal, Reason: doc.Reason(d.Reason), Status: d.Status}
					if !yield(redrive.Record{Failure: f, Class: d.Class}, err) {
						return
					}
				}
			}
		},
		Note: func(ctx context.Context, failures []doc.Failure) error {
			return session.RefusalsOf(kept).Keep(ctx, refused(failures))
		},
	}
}

// sourceOf opens what the session has read, with --repo-uri the snapshot, with --from the files of an import; else nil.
func sourceOf(ctx context.Context, o Options, kept *cms.Coordinator, in *Resources, log *slog.Logger) (redrive.Source, error) {
	if o.repoURI == "" && o.from == "" {
		return nil, nil
	}
	if kept == nil {
		return nil, config.Usage("%s", noPlaces(o))
	}
	recorded, err := session.IdentityOf(kept).Settings(ctx)
	if errors.Is(err, cms.ErrNotFound) {
		return nil, config.Usage("%s", noPlaces(o))
	}
	if err != nil {
		return nil, fmt.Errorf("state of the session: %w", err)
	}
	if o.from != "" {
		return filesAgain(ctx, o, kept, in, log)
	}
	return snapshotAgain(ctx, o, kept, recorded, in)
}

// noPlaces returns the message about a session without state.
func noPlaces(o Options) string {
	return fmt.Sprintf("the session %s has no state, which names the places of its documents: give --session-name, --coordinator-host, --coordinator-bucket or --coordinator-file of the migration or import", o.SessionOrDefault())
}

// filesAgain opens the files that the session imported.
func filesAgain(ctx context.Context, o Options, kept *cms.Coordinator, in *Resources, log *slog.Logger) (redrive.Source, error) {
	files, err := OpenFiles(ctx, o)
	if err != nil {
		return nil, err
	}
	return importer.NewAgain(ctx, importer.Comparison{Source: files, MaxDocument: o.maxDocument, Memory: in.Memory, Frames: budget.New(importer.MaxBack, 0), Log: log}, kept)
}

// snapshotAgain opens the snapshot that the session migrated.
func snapshotAgain(ctx context.Context, o Options, kept *cms.Coordinator, recorded map[string]string, in *Resources) (redrive.Source, error) {
	blobs, err := repo.OpenFederation(ctx, o.repoURI, o.remotes, o.stores)
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", o.repoURI, err)
	}
	if is := repositoryIdentity(blobs.URI()); recorded["repository"] != is {
		return nil, config.Usage("the session %s was migrated from %s: give it as --repo-uri", o.SessionOrDefault(), cmp.Or(recorded["repository"], "a directory"))
	}
	digest := ""
	if o.rules != nil {
		digest = o.rules.Digest()
	}
	if was := recorded["rules"]; was != digest {
		if was == "" {
			return nil, config.Usage("the session %s was migrated without rules: leave --rules out", o.SessionOrDefault())
		}
		return nil, config.Usage("the session %s was migrated with other rules: give its file as --rules", o.SessionOrDefault())
	}
	entries, err := phase.SessionEntries(ctx, kept)
	if err != nil {
		return nil, err
	}
	return &shards.Again{Repo: blobs, Entries: entries, Edit: o.editor, Redirects: o.rules.Targets, Memory: in.Memory, Versions: o.existing == bulk.Newer, MaxDocument: o.maxDocument}, nil
}

// newRedriveAccount returns the account of the place of o. A directory is known by host and path.
func newRedriveAccount(o Options, kept *cms.Coordinator) (session.PlaceAccount, error) {
	if o.recorded {
		return session.PlaceAccount{Records: session.RedrivesOf(kept), Place: controlIndex, All: true}, nil
	}
	host, dir, err := placeOf(o.FailedDir)
	if err != nil {
		return session.PlaceAccount{}, err
	}
	bucket := host == ""
	if !bucket {
		dir = host + ":" + dir
	}
	return session.PlaceAccount{Records: session.RedrivesOf(kept), Place: dir, Bucket: bucket}, nil
}
