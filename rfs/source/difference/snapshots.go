package difference

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// State describes an index in the later of two snapshots.
type State string

// The states of an index.
const (
	Added     State = "added"     // only the later snapshot has it
	Removed   State = "removed"   // only the earlier snapshot has it
	Recreated State = "recreated" // the later one is another index of the name
	Resized   State = "resized"   // it has another number of shards
	Compared  State = "compared"  // its shards were compared
)

// Index is an index of one of two snapshots, or of both.
type Index struct {
	Name   string
	State  State
	Shards []Shard // where they were compared
	Err    error   // its metadata cannot be read
}

// Shard is the difference of a shard.
type Shard struct {
	Counts        // of versions, unless Options.Documents asks for documents
	Totals Totals // of documents, if it does
	Whole  Reason // why it was not compared; "": it was
	Err    error  // one of its commits cannot be read, or the snapshot lacks it
}

// Options configures the comparison of two snapshots.
type Options struct {
	// Selected reports whether an index is compared.
	Selected func(name string) bool
	// Memory bounds what a pass over a shard holds, in bytes.
	Memory int64
	// Documents has the documents of each difference read, by their ids, and shards compared by contents where numbers do not
	// determine the difference.
	Documents bool
}

// Snapshots yields what became of each selected index between two snapshots of a repository, in order of names.
func Snapshots(ctx context.Context, r snapshot.Repository, from, to *snapshot.Snapshot, opt Options) iter.Seq[Index] {
	in := map[string][2]bool{} // whether from and to have an index
	for i, s := range []*snapshot.Snapshot{from, to} {
		for _, x := range s.Indices {
			has := in[x.Name]
			has[i] = true
			in[x.Name] = has
		}
	}
	return func(yield func(Index) bool) {
		for _, name := range slices.Sorted(maps.Keys(in)) {
			if !opt.Selected(name) {
				continue
			}
			var x Index
			switch has := in[name]; {
			case !has[0]:
				x = Index{Name: name, State: Added}
			case !has[1]:
				x = Index{Name: name, State: Removed}
			default:
				x = compare(ctx, r, from, to, name, opt)
			}
			if ctx.Err() != nil || !yield(x) {
				return
			}
		}
	}
}

// compare compares an index that both snapshots have.
func compare(ctx context.Context, r snapshot.Repository, from, to *snapshot.Snapshot, name string, opt Options) Index {
	out := Index{Name: name, State: Compared}
	was, err := from.Index(ctx, name)
	var is *snapshot.Index
	if err == nil {
		is, err = to.Index(ctx, name)
	}
	switch {
	case err != nil:
		out.Err = err
	case was.Settings["index.uuid"] != is.Settings["index.uuid"]:
		out.State = Recreated
	case was.NumShards != is.NumShards:
		out.State = Resized
	default:
		filtered := slices.ContainsFunc(slices.Concat(was.Mappings, is.Mappings), func(m snapshot.Mapping) bool { return !rebuild.SourceFilterOf(m.Body).Empty() })
		for n := range is.NumShards {
			out.Shards = append(out.Shards, compareShard(ctx, r, was.Locator, is.Locator, n, filtered, opt))
		}
	}
	return out
}

// compareShard counts the changes of one shard.
func compareShard(ctx context.Context, r snapshot.Repository, from, to snapshot.Locator, n int, filtered bool, opt Options) (out Shard) {
	was, err := openCommit(ctx, r, from, n)
	if err != nil {
		return Shard{Err: err}
	}
	is, err := openCommit(ctx, r, to, n)
	if err != nil {
		return Shard{Err: err}
	}
	d, err := New(was, is, opt.Memory)
	whole := (*Whole)(nil)
	switch {
	case err == nil && opt.Documents:
		out.Totals, err = d.Documents(ctx, func(Document) error { return nil })
	case err == nil:
		out.Counts, err = d.Read(ctx, Start, func(Change) error { return nil }, func(int64) error { return nil })
	}
	if opt.Documents && errors.As(err, &whole) {
		out.Totals, err = NewByContents(was, is, opt.Memory, filtered).Documents(ctx, func(Document) error { return nil })
	}
	if errors.As(err, &whole) {
		return Shard{Whole: whole.Reason}
	}
	out.Err = err
	return out
}

func openCommit(ctx context.Context, r snapshot.Repository, loc snapshot.Locator, n int) (*lucene.Commit, error) {
	s, err := snapshot.OpenShard(ctx, r, loc, n)
	if err != nil {
		return nil, err
	}
	c, err := lucene.Open(ctx, s.Directory(), lucene.Options{})
	return c, s.Blame(err)
}
