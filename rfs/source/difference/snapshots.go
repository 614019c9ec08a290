package difference

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/early"
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
	Recreated State = "recreated" // the later one is another index with the same name
	Resized   State = "resized"   // its number of shards differs
	Compared  State = "compared"  // its shards were compared
)

// Index is an index of one of two snapshots, or of both.
type Index struct {
	Name   string
	State  State
	Shards []Shard // if they were compared
	Err    error   // its metadata cannot be read
}

// Shard is the difference of a shard.
type Shard struct {
	Counts        // of versions, unless Options.Documents is set
	Totals Totals // of documents, if it is set
	Whole  Reason // the reason why it was not compared; else ""
	Err    error  // one of its commits cannot be read, or the snapshot lacks it
}

// Options configures the comparison of two snapshots.
type Options struct {
	// Selected reports whether an index is compared.
	Selected func(name string) bool
	// Memory bounds the memory of a pass over a shard, in bytes.
	Memory int64
	// Concurrency is the number of shards that are compared concurrently; 0 means 1.
	Concurrency int
	// Documents requests totals of documents instead of versions: documents are matched by id, and shards are compared by contents if
	// numbers do not determine the difference.
	Documents bool
}

// Snapshots yields the difference of each selected index between two snapshots of a repository, in order of names.
func Snapshots(ctx context.Context, r snapshot.Repository, from, to *snapshot.Snapshot, opt Options) iter.Seq[Index] {
	in := map[string][2]bool{} // whether from and to have an index
	for i, s := range []*snapshot.Snapshot{from, to} {
		for _, x := range s.Indices {
			has := in[x.Name]
			has[i] = true
			in[x.Name] = has
		}
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(in)), func(name string) bool { return !opt.Selected(name) })
	c := comparison{r, from, to, opt, make(chan struct{}, max(opt.Concurrency, 1))}
	return func(yield func(Index) bool) {
		var ahead []*early.Result[Index] // the following ones, in order
		defer func() {
			for _, x := range ahead {
				x.Stop()
			}
		}()
		for next := 0; next < len(names) || len(ahead) > 0; {
			for ; next < len(names) && len(ahead) <= cap(c.slots); next++ {
				name := names[next]
				ahead = append(ahead, early.Start(ctx, func(ctx context.Context) Index { return c.index(ctx, name, in[name]) }))
			}
			x := ahead[0].Wait()
			ahead[0].Stop()
			ahead = ahead[1:]
			if ctx.Err() != nil || !yield(x) {
				return
			}
		}
	}
}

// comparison is the comparison of two snapshots.
type comparison struct {
	repo     snapshot.Repository
	from, to *snapshot.Snapshot
	Options
	slots chan struct{} // one element per shard that is being compared
}

// index compares an index that from, to, or both have.
func (c *comparison) index(ctx context.Context, name string, has [2]bool) Index {
	switch {
	case !has[0]:
		return Index{Name: name, State: Added}
	case !has[1]:
		return Index{Name: name, State: Removed}
	}
	out := Index{Name: name, State: Compared}
	was, err := c.from.Index(ctx, name)
	var is *snapshot.Index
	if err == nil {
		is, err = c.to.Index(ctx, name)
	}
	switch {
	case err != nil:
		out.Err = err
	case was.Settings["index.uuid"] != is.Settings["index.uuid"]:
		out.State = Recreated
	case was.NumShards != is.NumShards:
		out.State = Resized
	default:
		filtered := sync.OnceValue(func() bool {
			return slices.ContainsFunc(slices.Concat(was.Mappings, is.Mappings), func(m snapshot.Mapping) bool { return !rebuild.SourceFilterOf(m.Body).Empty() })
		})
		out.Shards = make([]Shard, is.NumShards)
		var wg sync.WaitGroup
		for n := range is.NumShards {
			c.slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-c.slots }()
				out.Shards[n] = c.shard(ctx, was.Locator, is.Locator, n, filtered)
			})
		}
		wg.Wait()
	}
	return out
}

// shard counts the changes of one shard. filtered reports whether stored sources lack fields.
func (c *comparison) shard(ctx context.Context, from, to snapshot.Locator, n int, filtered func() bool) (out Shard) {
	was, err := OpenCommit(ctx, c.repo, from, n)
	if err != nil {
		return Shard{Err: err}
	}
	is, err := OpenCommit(ctx, c.repo, to, n)
	if err != nil {
		return Shard{Err: err}
	}
	d, err := New(was, is, c.Memory)
	whole := (*Whole)(nil)
	switch {
	case err == nil && c.Documents:
		out.Totals, err = totals(d.Documents(ctx))
	case err == nil:
		out.Counts, err = d.Read(ctx, Start, func(Change) error { return nil }, func(int64) error { return nil })
	}
	if c.Documents && errors.As(err, &whole) {
		out.Totals, err = totals(NewByContents(was, is, c.Memory, filtered()).Documents(ctx))
	}
	if errors.As(err, &whole) {
		return Shard{Whole: whole.Reason}
	}
	out.Err = err
	return out
}

// totals returns the totals of documents that were read without an error.
func totals(d *Documents, err error) (Totals, error) {
	if err != nil {
		return Totals{}, err
	}
	return d.Totals, nil
}

// OpenCommit opens the commit of a shard of a snapshot.
func OpenCommit(ctx context.Context, r snapshot.Repository, loc snapshot.Locator, n int) (*lucene.Commit, error) {
	s, err := snapshot.OpenShard(ctx, r, loc, n)
	if err != nil {
		return nil, err
	}
	c, err := lucene.Open(ctx, s.Directory(), lucene.Options{Parts: true})
	return c, s.Blame(err)
}
