package shards

import (
	"context"
	"log/slog"
	"slices"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Later passes on what a round of a later snapshot would send to some target indices after the session: documents that are new or were
// changed, and deletions (doc.Document.Delete). later returns the name of that snapshot for an index of the source; "" for no such snapshot. A
// document is borrowed until each returns.
func (a *Again) Later(ctx context.Context, targets []string, later func(index string) string, log *slog.Logger, each func(*doc.Document)) error {
	catalog, err := snapshot.OpenCatalog(ctx, a.Repo)
	if err != nil {
		return err
	}
	for _, e := range a.Entries {
		name := later(e.Locator.IndexName)
		if name == "" || !slices.ContainsFunc(a.targets(e), func(target string) bool { return slices.Contains(targets, target) }) {
			continue
		}
		if err := a.prove(ctx, e); err != nil {
			return err
		}
		if err := a.laterOf(ctx, catalog, e, name, log, each); err != nil {
			return err
		}
	}
	return nil
}

// laterOf passes on what a later snapshot changes in an index.
func (a *Again) laterOf(ctx context.Context, catalog *snapshot.Catalog, e plan.Entry, name string, log *slog.Logger, each func(*doc.Document)) error {
	snap, err := catalog.Snapshot(ctx, name)
	if err != nil {
		return err
	}
	gen, err := plan.Follow{Since: e.Locator.SnapshotName}.Read(ctx, catalog, snap)
	if err != nil {
		return err
	}
	nothing := func(*doc.Document) error { return nil }
	deletes, read := false, ReadChanged
	to := Documents{Filter: nothing, Fail: func(*doc.Failure) error { return nil }, Memory: a.Memory, MaxDocument: a.MaxDocument}
	to.Send = func(d *doc.Document) error {
		d.Delete = d.Delete || deletes
		each(d)
		return nil
	}
	if deletes = !snap.Has(e.Locator.IndexName); deletes { // all of its documents
		read = func(ctx context.Context, repo snapshot.Repository, e plan.Entry, shard int, edit func(index string) DocumentEditor, _ *slog.Logger, to Documents) error {
			return Read(ctx, repo, e, shard, edit, to)
		}
	} else {
		x, err := snap.Index(ctx, e.Locator.IndexName)
		if err != nil {
			return err
		}
		if e.Since, err = gen.Since(ctx, x); err != nil {
			return err
		}
		e.Locator, e.Shards, e.Version = x.Locator, x.NumShards, gen.Version
	}
	for shard := range e.Shards {
		if err := read(ctx, a.Repo, e, shard, a.Edit, log, to); err != nil {
			return err
		}
	}
	return nil
}
