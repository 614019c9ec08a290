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

// Limits of what all slots of a process together open ahead.
const (
	aheadShards = 16
	AheadBytes  = 64 << 20 // in the repository
	// aheadFiles is the maximum number of files of such a shard, and aheadHeld the memory of its commit in bytes.
	aheadFiles = 1024
	aheadHeld  = 1 << 20
)

var errNotAhead = errors.New("the shard has too many files to be opened ahead")

// Ahead holds shards that the slots of a process will probably lease next. Opening them before they are leased hides the latency of the
// repository. They are only a cache: a lease uses an open shard only if the entry of its index is unchanged, and otherwise opens the shard
// itself. It is safe for concurrent use. The nil Ahead opens nothing.
type Ahead struct {
	reader *Reader

	mu     sync.Mutex
	opened map[string]*shardAhead // by id of the item
}

// shardAhead is the shard of one item. Its result is nil if the shard cannot be opened.
type shardAhead struct {
	slot  int // the slot that opened it
	bytes int64
	entry plan.Entry
	*early.Result[*openShard]
}

// NextItem is an item whose shard is to be opened ahead.
type NextItem struct {
	Item  cms.Item
	ID    cms.ItemID
	Entry plan.Entry
	Bytes int64 // repository size of its shard
}

// NewAhead returns an empty Ahead that opens shards like r.
func NewAhead(r *Reader) *Ahead {
	return &Ahead{reader: r, opened: map[string]*shardAhead{}}
}

// Open starts opening the shards of items for a slot, in order and within the limits. existing is the treatment of documents whose ids
// exist on the target.
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
			if o.open(ctx, a.reader.Repo, a.reader.Edit) != nil { // the lease will meet the error again
				return nil
			}
			return o
		})}
	}
}

// take returns the open shard of an item for its lease, to be read from an ordinal on; nil if it was not opened or its entry has changed.
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
	if o := x.Wait(); from == 0 || o.commit.Close() == nil { // closes the streams of the first documents, which are not needed
		return o
	}
	return nil
}

// Keep closes the shards that a slot has opened, except for the shards of items.
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

// drop cancels the opening and closes the shard.
func (x *shardAhead) drop() {
	x.Stop()
	if x.Wait() != nil {
		_ = x.Wait().commit.Close() // nothing was read from it
	}
}
