package difference

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/source/lucene"
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
	Counts
	Whole Reason // why it was not compared; "": it was
	Err   error  // one of its commits cannot be read, or the snapshot lacks it
}

// Snapshots yields what became of each selected index between two snapshots of a repository, in order of names. A pass over the numbers of a shard holds at most memory bytes.
func Snapshots(ctx context.Context, r snapshot.Repository, from, to *snapshot.Snapshot, memory int64, selected func(name string) bool) iter.Seq[Index] {
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
			if !selected(name) {
				continue
			}
			var x Index
			switch has := in[name]; {
			case !has[0]:
				x = Index{Name: name, State: Added}
			case !has[1]:
				x = Index{Name: name, State: Removed}
			default:
				x = compare(ctx, r, from, to, name, memory)
			}
			if ctx.Err() != nil || !yield(x) {
				return
			}
		}
	}
}

// compare compares an index that both snapshots have.
func compare(ctx context.Context, r snapshot.Repository, from, to *snapshot.Snapshot, name string, memory int64) Index {
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
		for n := range is.NumShards {
			out.Shards = append(out.Shards, compareShard(ctx, r, was.Locator, is.Locator, n, memory))
		}
	}
	return out
}

// compareShard counts the changes of one shard.
func compareShard(ctx context.Context, r snapshot.Repository, from, to snapshot.Locator, n int, memory int64) (out Shard) {
	was, err := openCommit(ctx, r, from, n)
	var is *lucene.Commit
	if err == nil {
		is, err = openCommit(ctx, r, to, n)
	}
	var d *Reader
	if err == nil {
		d, err = New(was, is, memory)
	}
	if err == nil {
		out.Counts, err = d.Read(ctx, Start, func(Change) error { return nil }, func(int64) error { return nil })
	}
	if whole := (*Whole)(nil); errors.As(err, &whole) {
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
