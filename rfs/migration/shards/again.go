package shards

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Again reads documents of a session from the snapshot again, in the form in which they were sent. It is a redrive.Source.
type Again struct {
	Repo    snapshot.Repository
	Entries []plan.Entry                      // of the session
	Edit    func(index string) DocumentEditor // nil: documents stay as they are
	// Redirects returns the target indices to which rules send documents of an index of the snapshot; nil: none.
	Redirects   func(index string) []string
	Memory      *budget.Budget // bounds the memory of long documents; nil: no bound
	Versions    bool           // set the versions of documents
	MaxDocument int64          // longest source that is read, in bytes; 0: DefaultMaxDocument

	proven map[string]bool // names of indices whose entries were verified with their metadata
}

// prove returns a fault.ErrConfig for an entry that does not locate the files of its index.
func (a *Again) prove(ctx context.Context, e plan.Entry) error {
	index := e.Locator.IndexName
	if a.proven[index] {
		return nil
	}
	x, err := e.Locator.Index(ctx, a.Repo)
	if err != nil {
		return err
	}
	if err := plan.DiffersInPlace(x, e).Err(index); err != nil {
		return err
	}
	if a.proven == nil {
		a.proven = map[string]bool{}
	}
	a.proven[index] = true
	return nil
}

// Read calls each with the wanted documents that the snapshot holds, found by ordinal and id, in any order. n is the index in wanted. A
// document is only valid during the call.
func (a *Again) Read(ctx context.Context, wanted []redrive.Document, each func(n int, d *doc.Document) error) error {
	for _, e := range a.Entries {
		names := a.targets(e)
		byShard := map[int][]int{} // indices in wanted
		for n, d := range wanted {
			if d.Shard >= 0 && d.Shard < e.Shards && slices.Contains(names, d.Index) {
				byShard[d.Shard] = append(byShard[d.Shard], n)
			}
		}
		for shard := range e.Shards {
			if len(byShard[shard]) == 0 {
				continue
			}
			if err := a.prove(ctx, e); err != nil {
				return err
			}
			if err := a.shard(ctx, e, shard, wanted, byShard[shard], each); err != nil {
				return err
			}
		}
	}
	return nil
}

// targets returns the target indices of the documents of an entry.
func (a *Again) targets(e plan.Entry) []string {
	names := e.Naming.Targets()
	if a.Redirects != nil {
		names = append(names, a.Redirects(e.Locator.IndexName)...)
	}
	return names
}

// apart is the largest distance in ordinals between two documents that are read in sequence; beyond it the reader starts anew.
const apart = 4096

// shard calls each with the wanted documents of one shard of an index of the snapshot.
func (a *Again) shard(ctx context.Context, e plan.Entry, shard int, wanted []redrive.Document, places []int, each func(n int, d *doc.Document) error) error {
	slices.SortFunc(places, func(x, y int) int { return cmp.Compare(wanted[x].Ordinal, wanted[y].Ordinal) })
	from := func(ordinal int64) int { // position in places of the first document from an ordinal on
		at, _ := slices.BinarySearchFunc(places, ordinal, func(n int, o int64) int { return cmp.Compare(wanted[n].Ordinal, o) })
		return at
	}
	r, err := Open(ctx, a.Repo, e, shard, a.Edit, Documents{
		Memory: a.Memory, MaxDocument: a.MaxDocument, Versions: a.Versions,
		Select: func(ordinal int64) bool {
			at := from(ordinal)
			return at < len(places) && wanted[places[at]].Ordinal == ordinal
		},
		Send: func(d *doc.Document) error {
			for at := from(d.Ordinal); at < len(places) && wanted[places[at]].Ordinal == d.Ordinal; at++ {
				if w := wanted[places[at]]; w.Index == string(d.Index) && bytes.Equal([]byte(w.ID), d.ID) {
					return each(places[at], d)
				}
			}
			return nil
		},
		Filter: func(*doc.Document) error { return nil },
		Fail:   func(*doc.Failure) error { return nil },
	})
	if err != nil {
		return err
	}
	for len(places) > 0 {
		first := wanted[places[0]].Ordinal
		n := 1
		for n < len(places) && wanted[places[n]].Ordinal-wanted[places[n-1]].Ordinal <= apart {
			n++
		}
		last := min(wanted[places[n-1]].Ordinal+1, r.MaxOrdinal())
		if first = max(first, 0); first < last {
			if err := r.Read(ctx, first, last); err != nil {
				return err
			}
		}
		places = places[n:]
	}
	return nil
}
