package shards

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/early"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Bounds of what the slots of a process open ahead, all together.
const (
	aheadShards = 16
	AheadBytes  = 64 << 20 // in the repository
	// aheadFiles limits the files of such a shard, and aheadHeld the memory of its commit, in bytes.
	aheadFiles = 1024
	aheadHeld  = 1 << 20
)

var errNotAhead = errors.New("the shard has too many files to be opened ahead")

// Ahead are shards that the slots of a process will probably lease next, opened before they are, so that a repository with
// latency is not waited for at every shard. They decide nothing: the lease of an item uses the shard only if its index is described
// as it was when the shard was opened, and opens the shard itself where it could not be opened ahead. It is safe for concurrent
// use. The nil Ahead opens nothing.
type Ahead struct {
	reader *Reader

	mu     sync.Mutex
	opened map[string]*shardAhead // by id of the item
}

// shardAhead is the shard of one item. Its result is nil if it cannot be opened.
type shardAhead struct {
	slot  int // that opened it
	bytes int64
	entry plan.Entry
	*early.Result[*openShard]
}

// NextItem is an item whose shard is to be opened ahead.
type NextItem struct {
	Item  cms.Item
	ID    cms.ItemID
	Entry plan.Entry
	Bytes int64 // of its shard in the repository
}

// NewAhead returns an empty Ahead that opens shards as a reader does.
func NewAhead(r *Reader) *Ahead {
	return &Ahead{reader: r, opened: map[string]*shardAhead{}}
}

// Open starts to open the shards of the items for a slot, in order and as far as the bounds allow. existing is the choice for documents
// whose ids the target has.
func (a *Ahead) Open(ctx context.Context, slot int, existing bulk.Existing, items []NextItem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var bytes int64
	for _, x := range a.opened {
		bytes += x.bytes
	}
	for _, n := range items {
		switch {
		case a.opened[n.Item.ID] != nil:
			continue
		case len(a.opened) == aheadShards || bytes+n.Bytes > AheadBytes:
			return
		}
		bytes += n.Bytes
		o := newOpenShard(a.reader, n.Entry, n.ID.Shard, n.Item.Begin(), existing)
		o.ahead = true
		a.opened[n.Item.ID] = &shardAhead{slot, n.Bytes, n.Entry, early.Start(ctx, func(ctx context.Context) *openShard {
			if o.open(ctx, a.reader.Repo, a.reader.Edit) != nil { // the lease finds the error again
				return nil
			}
			return o
		})}
	}
}

// take returns the shard of an item as its lease reads it, from an ordinal on; nil if it was not opened, or not so.
func (a *Ahead) take(ctx context.Context, id cms.ItemID, entry plan.Entry, from int64) *openShard {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	x := a.opened[id.String()]
	delete(a.opened, id.String())
	a.mu.Unlock()
	if x == nil {
		return nil
	}
	select {
	case <-x.Done():
	case <-ctx.Done():
	}
	if ctx.Err() != nil || x.Wait() == nil || !reflect.DeepEqual(x.entry, entry) {
		x.drop()
		return nil
	}
	x.Cancel()
	if o := x.Wait(); from == 0 || o.commit.Close() == nil { // the streams of the first documents
		return o
	}
	return nil
}

// Keep drops the shards that a slot has opened, except for those in items.
func (a *Ahead) Keep(slot int, items []string) {
	var gone []*shardAhead
	a.mu.Lock()
	for id, x := range a.opened {
		if x.slot == slot && !slices.Contains(items, id) {
			gone = append(gone, x)
			delete(a.opened, id)
		}
	}
	a.mu.Unlock()
	for _, x := range gone {
		x.Cancel()
	}
	for _, x := range gone {
		x.drop()
	}
}

// drop ends the opening, and the reads that it started.
func (x *shardAhead) drop() {
	x.Stop()
	if x.Wait() != nil {
		_ = x.Wait().commit.Close() // nothing was read of it
	}
}
