package shards

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// leaky counts the streams that are open, and can hold up and refuse reads.
type leaky struct {
	snapshot.Repository
	open   atomic.Int64
	reads  atomic.Int64
	broken atomic.Bool
	held   chan struct{} // reads wait until it is closed; nil: none
}

func (l *leaky) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	l.reads.Add(1)
	if l.held != nil {
		select {
		case <-l.held:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if l.broken.Load() && strings.HasSuffix(name, ".dat") {
		return io.NopCloser(strings.NewReader("damage")), nil
	}
	rc, err := l.Repository.Open(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	l.open.Add(1)
	return &leakyStream{rc, &l.open, sync.Once{}}, nil
}

type leakyStream struct {
	io.ReadCloser
	open *atomic.Int64
	once sync.Once
}

func (s *leakyStream) Close() error {
	s.once.Do(func() { s.open.Add(-1) })
	return s.ReadCloser.Close()
}

// TestShardsAhead: what was opened for an item is for the lease that reads it so, and nothing stays open of any other.
func TestShardsAhead(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-many-chunks"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	entry := plan.Indices[0].Entry
	id := cms.ItemID{Index: entry.Locator.IndexName}
	next := NextItem{cms.Item{ID: id.String()}, id, entry, 1 << 20}
	for name, c := range map[string]struct {
		prepare func(l *leaky)
		do      func(t *testing.T, a *Ahead, l *leaky) *openShard
		want    bool // to get it
	}{
		"taken": {nil, func(t *testing.T, a *Ahead, _ *leaky) *openShard { return a.take(t.Context(), id, entry, 0) }, true},
		"taken from another ordinal on": {nil, func(t *testing.T, a *Ahead, l *leaky) *openShard {
			o := a.take(t.Context(), id, entry, 7)
			if l.open.Load() != 0 {
				t.Error("the streams of the first documents are open")
			}
			return o
		}, true},
		"taken twice": {nil, func(t *testing.T, a *Ahead, _ *leaky) *openShard {
			if o := a.take(t.Context(), id, entry, 0); o == nil || o.commit.Close() != nil {
				t.Error("not opened")
			}
			return a.take(t.Context(), id, entry, 0)
		}, false},
		"of another entry": {nil, func(t *testing.T, a *Ahead, _ *leaky) *openShard {
			other := entry
			other.KeepLast = !entry.KeepLast
			return a.take(t.Context(), id, other, 0)
		}, false},
		"of another slot": {nil, func(t *testing.T, a *Ahead, _ *leaky) *openShard {
			a.Keep(2, nil)
			return a.take(t.Context(), id, entry, 0)
		}, true},
		"dropped": {nil, func(t *testing.T, a *Ahead, _ *leaky) *openShard {
			a.Keep(1, []string{"another"})
			return a.take(t.Context(), id, entry, 0)
		}, false},
		"dropped while it is opened": {func(l *leaky) { l.held = make(chan struct{}) }, func(t *testing.T, a *Ahead, _ *leaky) *openShard {
			a.Keep(1, nil)
			return a.take(t.Context(), id, entry, 0)
		}, false},
		"the lease ends meanwhile": {func(l *leaky) { l.held = make(chan struct{}) }, func(t *testing.T, a *Ahead, _ *leaky) *openShard {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return a.take(ctx, id, entry, 0)
		}, false},
		"damaged": {func(l *leaky) { l.broken.Store(true) }, func(t *testing.T, a *Ahead, _ *leaky) *openShard { return a.take(t.Context(), id, entry, 0) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := &leaky{Repository: blobs}
			if c.prepare != nil {
				c.prepare(l)
			}
			a := &Ahead{reader: &Reader{Repo: l}, opened: map[string]*shardAhead{}}
			a.Open(t.Context(), 1, "", []NextItem{next})
			o := c.do(t, a, l)
			if (o != nil) != c.want {
				t.Errorf("got %v", o)
			}
			if o != nil {
				if err := o.commit.Close(); err != nil {
					t.Error(err)
				}
			}
			if n := l.open.Load(); n != 0 || len(a.opened) != 0 {
				t.Errorf("%d streams and %d shards are open", n, len(a.opened))
			}
		})
	}
}

// TestBoundsOfShardsAhead: all slots together open few shards, and little of them.
func TestBoundsOfShardsAhead(t *testing.T) {
	for _, c := range []struct {
		bytes int64 // of each
		want  int
	}{{1, aheadShards}, {AheadBytes / 2, 2}, {AheadBytes, 1}, {AheadBytes + 1, 0}} {
		held := make(chan struct{})
		a := &Ahead{reader: &Reader{Repo: &leaky{held: held}}, opened: map[string]*shardAhead{}}
		for slot := range 2 {
			var next []NextItem
			for i := range aheadShards {
				id := cms.ItemID{Index: "logs", Shard: slot*aheadShards + i}
				next = append(next, NextItem{cms.Item{ID: id.String()}, id, plan.Entry{}, c.bytes})
			}
			a.Open(t.Context(), slot, "", next)
		}
		if len(a.opened) != c.want {
			t.Errorf("%d shards of %d bytes are opened ahead, want %d", len(a.opened), c.bytes, c.want)
		}
		a.Keep(0, nil)
		a.Keep(1, nil)
	}
}
