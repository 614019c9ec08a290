package arrival_test

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// cluster answers questions about its indices.
type cluster struct {
	found, lucene map[string]int64
	did           map[string]target.Operations
	aliases       map[string]string
	fails         map[string]error // by call and index, such as "count a"

	mu    sync.Mutex
	calls []string
}

func (c *cluster) answer(call, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call+" "+name)
	return c.fails[call+" "+name]
}

func (c *cluster) Refresh(_ context.Context, name string) error { return c.answer("refresh", name) }
func (c *cluster) Count(_ context.Context, name string) (int64, error) {
	return c.found[name], c.answer("count", name)
}
func (c *cluster) CountLucene(_ context.Context, name string) (int64, error) {
	return c.lucene[name], c.answer("lucene", name)
}
func (c *cluster) Operations(_ context.Context, name string) (target.Operations, error) {
	return c.did[name], c.answer("operations", name)
}
func (c *cluster) GetIndex(_ context.Context, name string) ([]target.Index, error) {
	return []target.Index{{Name: name, Aliases: json.RawMessage(c.aliases[name])}}, c.answer("index", name)
}

// holds makes an index with documents, each of which took one operation.
func (c *cluster) holds(name string, n int64) {
	c.found[name], c.lucene[name], c.did[name] = n, 2*n, target.Operations{Executed: n}
}

// tallied is a store that may fail to list or to put records of a kind, or to scan its items, and that counts what was put.
type tallied struct {
	*migrationtest.Memory
	lists, puts map[string]error // by kind
	scan        error

	mu  sync.Mutex
	put map[string]int
}

func (s *tallied) OfKind(context.Context, string) (cms.Store, error) { return s, nil }

func (s *tallied) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if err := s.puts[r.Kind]; err != nil {
		return cms.Revision{}, err
	}
	s.mu.Lock()
	s.put[r.Kind]++
	s.mu.Unlock()
	return s.Memory.Put(ctx, r)
}

func (s *tallied) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return failing(s.lists[kind], s.Memory.List(ctx, kind))
}

// Scan yields the items in the order of their ids.
func (s *tallied) Scan(ctx context.Context) iter.Seq2[cms.Item, error] {
	var all []cms.Item
	for it := range s.Memory.Scan(ctx) {
		all = append(all, it)
	}
	slices.SortFunc(all, func(a, b cms.Item) int { return strings.Compare(a.ID, b.ID) })
	return failing(s.scan, func(yield func(cms.Item, error) bool) {
		for _, it := range all {
			if !yield(it, nil) {
				return
			}
		}
	})
}

// failing yields an error, or without one what all yields.
func failing[T any](err error, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	if err == nil {
		return all
	}
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

// audit is a session at its end, and the check of what has arrived.
type audit struct {
	*arrival.Check
	*cluster
	store     *tallied
	presented []string // the indices whose targets were looked for
	present   error    // what comes of it
}

// newAudit returns an audit of a session without indices, whose records cannot fail yet.
func newAudit() *audit {
	a := &audit{
		cluster: &cluster{found: map[string]int64{}, lucene: map[string]int64{}, did: map[string]target.Operations{}, aliases: map[string]string{}, fails: map[string]error{}},
		store:   &tallied{Memory: migrationtest.NewMemory(), lists: map[string]error{}, puts: map[string]error{}, put: map[string]int{}},
	}
	a.Check = &arrival.Check{
		Coordinator: cms.New(cms.Config{Store: a.store, Creator: "test"}), Counts: a.cluster, Log: slog.New(slog.DiscardHandler), Resent: map[string]bool{},
		Entry: func(_ context.Context, e session.IndexEntry) (plan.Entry, error) {
			return plan.DecodeEntry(e.Name, e.Body)
		},
		Present: func(_ context.Context, e plan.Entry) error {
			a.cluster.mu.Lock()
			defer a.cluster.mu.Unlock()
			a.presented = append(a.presented, e.Naming.Index)
			return a.present
		},
	}
	return a
}

// sends records an index of the snapshot and what each of its shards has sent. Without a target it has its own, of the same name.
func (a *audit) sends(t *testing.T, name string, e plan.Entry, shards ...cms.Counts) {
	t.Helper()
	if e.Naming.Index == "" {
		e.Naming.Index = name
	}
	migrationtest.HaveIndex(t, a.Coordinator, name, "uuid of "+name, e)
	for n, sent := range shards {
		a.item(name, n, sent, nil)
	}
	clear(a.store.put)
}

// item stores a shard that is completed; change may be nil.
func (a *audit) item(name string, shard int, sent cms.Counts, change func(it *cms.Item)) {
	it := cms.NewItem(cms.ItemID{Index: name, Shard: shard}.String(), "test", 0)
	it.Engine, it.CompletedAt, it.Counts = "go", 1, sent
	if change != nil {
		change(&it)
	}
	a.store.Items[it.ID] = it
}

// recorded returns what the entry of an index says about its arrival; nil: nothing.
func (a *audit) recorded(t *testing.T, name string) *progress.Arrival {
	return recordedIn(t, a.Coordinator, name)
}

func recordedIn(t *testing.T, c *cms.Coordinator, name string) *progress.Arrival {
	t.Helper()
	for e, err := range session.EntriesOf(c).All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Name != name {
			continue
		}
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			t.Fatal(err)
		}
		return entry.Arrival
	}
	t.Fatalf("no index %s", name)
	return nil
}

// indexed are the counts of documents that the target took.
func indexed(n int64) cms.Counts { return cms.Counts{Live: n, Indexed: n} }

// own is an entry whose targets the session created.
func own(targets ...string) plan.Entry { return plan.Entry{Shards: 1, Ours: targets} }

// into is an entry of an index whose documents go to the target of another name.
func into(to string, e plan.Entry) plan.Entry {
	e.Naming.Index = to
	return e
}
