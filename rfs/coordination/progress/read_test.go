package progress_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// world is a coordination store that a test fills.
type world struct {
	*cms.Coordinator
	store *boltcms.Store
}

func newWorld(t *testing.T) world {
	t.Helper()
	store := boltstore.Open(t)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	return world{c, store}
}

func (w world) entry(t *testing.T, name, state string, bytes ...int64) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"name": name, "shards": len(bytes), "locator": map[string]any{
		"naming": map[string]any{"index": name}, "bytes": bytes,
	}})
	if err != nil {
		t.Fatal(err)
	}
	id := cms.ItemID{Index: name}.String()
	w.put(t, cms.Record{ID: "index:" + id[:len(id)-len("__0__0")], Kind: "index", State: state, Body: body})
	if err := w.seed(name, len(bytes)); err != nil {
		t.Fatal(err)
	}
}

func (w world) seed(name string, shards int) error {
	_, err := w.SeedItems(context.Background(), func(yield func(cms.ItemID) bool) {
		for n := range shards {
			if !yield(cms.ItemID{Index: name, Shard: n}) {
				return
			}
		}
	})
	return err
}

func (w world) put(t *testing.T, r cms.Record) {
	t.Helper()
	if _, err := w.store.Put(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// lease leases the item, which must be the first candidate.
func (w world) lease(t *testing.T, id cms.ItemID) *cms.Lease {
	t.Helper()
	first := func(items []cms.Item) {
		slices.SortFunc(items, func(a, b cms.Item) int {
			if a.ID == id.String() {
				return -1
			}
			return 1
		})
	}
	l, err := w.AcquireNext(t.Context(), "worker", first)
	if err != nil || l.ID != id {
		t.Fatalf("lease of %v: %+v, %v", id, l, err)
	}
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w world) read(t *testing.T) *progress.Migration {
	t.Helper()
	m, err := read(t.Context(), w.Coordinator)
	must(t, err)
	return m
}

func TestAStoreThatWasNeverUsedIsNotStarted(t *testing.T) {
	m := newWorld(t).read(t)
	if m.Complete || len(m.Indices) != 0 || len(m.Phases) != 4 || m.Intent.State != "run" || m.SafeFrom != nil {
		t.Errorf("%+v", m)
	}
	for _, p := range m.Phases {
		if p.State != progress.NotStarted {
			t.Errorf("phase %+v", p)
		}
	}
}

func TestChainsOfItemsBecomeShards(t *testing.T) {
	w := newWorld(t)
	_, err := session.IdentityOf(w.Coordinator).Init(t.Context(), session.Meta{Settings: map[string]string{"repository": "s3://b", "snapshot": "snap"}})
	must(t, err)
	w.entry(t, "logs", progress.Completed, 1000, 1000, 3000)
	w.entry(t, "users", progress.Completed, 10)

	// Shard 0 is done in two items, shard 1 is half done and leased, shard 2 is untouched.
	l := w.lease(t, cms.ItemID{Index: "logs"})
	must(t, l.Handoff(t.Context(), 40, cms.Work{Counts: cms.Counts{Ordinals: 40, Live: 30, Indexed: 29, Failed: 1}}))
	l = w.lease(t, cms.ItemID{Index: "logs", Cursor: 40})
	must(t, l.Complete(t.Context(), cms.Work{Counts: cms.Counts{Ordinals: 60, Live: 50, Indexed: 50}}))
	l = w.lease(t, cms.ItemID{Index: "logs", Shard: 1})
	must(t, l.Progress(t.Context(), 50, cms.Work{Counts: cms.Counts{Ordinals: 50, Live: 50, Indexed: 50}, Checks: json.RawMessage(`{"files":[],"ordinals":200}`)}))

	m := w.read(t)
	if m.Repository != "s3://b" || m.Snapshot != "snap" || m.Complete || m.SafeFrom != nil {
		t.Errorf("%+v", m)
	}
	logs := m.Indices[0]
	want := progress.Counts{Items: 4, ItemsOpen: 2, Leased: 1, Shards: 3, ShardsDone: 1, Indexed: 129, Failed: 1, Bytes: 5000, BytesDone: 1250}
	if logs.Name != "logs" || logs.State != progress.InProgress || logs.Counts != want || logs.Targets[0] != "logs" {
		t.Errorf("%+v\nwant %+v", logs, want)
	}
	for i, is := range []struct {
		state    string
		fraction float64
	}{{progress.Completed, 1}, {progress.InProgress, 0.25}, {progress.NotStarted, 0}} {
		if s := logs.Shards[i]; s.State != is.state || s.Fraction != is.fraction {
			t.Errorf("shard %d: %+v", i, s)
		}
	}
	if s := logs.Shards[1]; s.Holder == "" || s.Expiry == nil || s.Expiry.Before(m.ReadAt) {
		t.Errorf("lease of %+v", s)
	}
	if m.Indices[1].State != progress.NotStarted || m.Totals.Shards != 4 || m.Totals.Items != 5 {
		t.Errorf("%+v, totals %+v", m.Indices[1], m.Totals)
	}
	docs := m.Phases[3]
	if docs.State != progress.InProgress || docs.Done != 2 || docs.Total != 5 || m.Phases[0].State != progress.Skipped {
		t.Errorf("phases %+v", m.Phases)
	}
}

func TestAShardOfUnknownLengthIsEstimatedByItsNeighbours(t *testing.T) {
	w := newWorld(t)
	w.entry(t, "logs", progress.Completed, 1000, 4000)
	must(t, w.lease(t, cms.ItemID{Index: "logs"}).Complete(t.Context(), cms.Work{Counts: cms.Counts{Ordinals: 100, Indexed: 100}}))
	must(t, w.lease(t, cms.ItemID{Index: "logs", Shard: 1}).Progress(t.Context(), 100, cms.Work{Counts: cms.Counts{Ordinals: 100, Indexed: 100}}))
	if s := w.read(t).Indices[0].Shards[1]; s.Fraction != 0.25 || s.Counts.BytesDone != 1000 {
		t.Errorf("%+v", s)
	}
}

func TestFailuresAreGroupedByReasonAndTheRestMaySayComplete(t *testing.T) {
	w := newWorld(t)
	w.entry(t, "bad", progress.Completed, 1, 1, 1, 1, 1, 1, 1)
	w.entry(t, "good", progress.Completed, 1)
	w.put(t, cms.Record{ID: "index:bm9uZQ", Kind: "index", State: progress.Failed, Error: "no mapping", Body: json.RawMessage(`{"name":"none","shards":0,"locator":{}}`)})
	for n := range 7 {
		must(t, w.lease(t, cms.ItemID{Index: "bad", Shard: n}).Fail(t.Context(), "checksum", nil))
	}
	must(t, w.lease(t, cms.ItemID{Index: "good"}).Complete(t.Context(), cms.Work{Counts: cms.Counts{Ordinals: 1, Indexed: 1}}))
	w.put(t, cms.Record{ID: "phase:docs", Kind: "phase", State: progress.Completed, CreatedAt: 1, UpdatedAt: 2})

	if m := w.read(t); m.Seeded || m.SafeFrom != nil {
		t.Errorf("before every item exists: seeded %v, safe from %v", m.Seeded, m.SafeFrom)
	}
	seed, err := w.AcquireSetup(t.Context(), "seeder")
	must(t, err)
	must(t, seed.Complete(t.Context(), cms.Work{}))
	m := w.read(t)
	if !m.Complete || !m.Seeded || m.SafeFrom == nil {
		t.Errorf("complete %v, seeded %v, safe from %v", m.Complete, m.Seeded, m.SafeFrom)
	}
	if len(m.Failures) != 2 || m.Failures[0].Reason != "checksum" || m.Failures[0].Count != 7 || len(m.Failures[0].Examples) != 5 || m.Failures[0].Examples[1] != "shard 1 of bad" ||
		m.Failures[1].Examples[0] != "index none" {
		t.Errorf("%+v", m.Failures)
	}
	states := map[string]string{}
	for _, x := range m.Indices {
		states[x.Name] = x.State
	}
	if states["bad"] != progress.Failed || states["good"] != progress.Completed || states["none"] != progress.Failed {
		t.Errorf("%v", states)
	}
	if m.Totals.ItemsBad != 7 || m.Totals.ShardsDone != 1 || m.Totals.ShardsFailed != 7 || m.Totals.BytesLost != 7 {
		t.Errorf("%+v", m.Totals)
	}
}

func TestALostSuccessorKeepsItsShardOpen(t *testing.T) {
	w := newWorld(t)
	w.entry(t, "logs", progress.Completed, 10)
	it := cms.NewItem(cms.ItemID{Index: "gap"}.String(), "test", 0)
	it.CompletedAt, it.Successors = 1, cms.ItemID{Index: "gap", Cursor: 5}.String()
	if _, err := w.store.Create(t.Context(), []cms.Item{it}); err != nil {
		t.Fatal(err)
	}
	if x := w.read(t).Indices[0]; x.Name != "gap" || x.State != progress.InProgress || x.Shards[0].Fraction == 1 {
		t.Errorf("%+v", x)
	}
}

func TestPhasesAreReadWithTheirProgress(t *testing.T) {
	w := newWorld(t)
	w.put(t, cms.Record{ID: "phase:snapshot", Kind: "phase", State: progress.InProgress, Holder: "h", Expire: time.Now().Add(time.Hour).UnixMilli(),
		Attempts: 2, CreatedAt: 1000, UpdatedAt: 2000, Body: json.RawMessage(`{"name":"rfs-s-1","done":5,"total":10,"unit":"bytes"}`)})
	m := w.read(t)
	if m.Snapshot != "rfs-s-1" {
		t.Errorf("snapshot %q", m.Snapshot)
	}
	p := m.Phases[0]
	if p.State != progress.InProgress || p.Holder != "h" || p.Done != 5 || p.Total != 10 || p.Unit != "bytes" || p.Attempts != 2 || p.Finished != nil || p.Started.Unix() != 1 {
		t.Errorf("%+v", p)
	}
	w.put(t, cms.Record{ID: "phase:metadata", Kind: "phase", State: progress.Failed, Error: "refused", UpdatedAt: 3000})
	m = w.read(t)
	if p := m.Phases[1]; p.State != progress.Failed || p.Finished.Unix() != 3 || len(m.Failures) != 1 || m.Failures[0].Examples[0] != "phase metadata" {
		t.Errorf("%+v, failures %+v", p, m.Failures)
	}
}

// TestReading_Snapshot: the snapshot that the settings name goes before the name in the record of the phase.
func TestReading_Snapshot(t *testing.T) {
	for _, c := range []struct {
		name, settings, phase, body, want string
	}{
		{"named", "snap1", "snapshot", `{"name":"rfs-s-1"}`, "snap1"},
		{"made by the session", "", "snapshot", `{"name":"rfs-s-1"}`, "rfs-s-1"},
		{"not made yet", "", "snapshot", ``, ""},
		{"another phase", "", "metadata", `{"name":"x"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &progress.Reading{Snapshot: c.settings, At: time.Now(), Phases: []cms.Record{{ID: "phase:" + c.phase, Kind: "phase", State: progress.Completed, Body: json.RawMessage(c.body)}}}
			if m, _ := r.Sum(); m.Snapshot != c.want {
				t.Errorf("%q, want %q", m.Snapshot, c.want)
			}
		})
	}
}

func TestAnIndexWhoseDocumentsAreNotOnTheTargetHasFailed(t *testing.T) {
	w := newWorld(t)
	w.put(t, cms.Record{ID: "index:Z29uZQ", Kind: "index", State: progress.Completed, Body: json.RawMessage(`{"name":"gone","shards":1,"locator":{"arrival":{"problem":"it does not exist"}}}`)})
	m := w.read(t)
	if x := m.Indices[0]; x.State != progress.Failed || x.Error != "it does not exist" || len(m.Failures) != 1 || m.Failures[0].Reason != x.Error {
		t.Errorf("%+v, failures %+v", x, m.Failures)
	}
}

// TestReading_RefusedAliases: an alias that the target refuses is a failure with a remedy, although the documents of its index have
// arrived.
func TestReading_RefusedAliases(t *testing.T) {
	w := newWorld(t)
	w.put(t, cms.Record{ID: "index:Z29uZQ", Kind: "index", State: progress.Completed, Body: json.RawMessage(`{"name":"gone","shards":1,"locator":{"refused_aliases":[{"index":"to","alias":"w","reason":"second write index"}]}}`)})
	m := w.read(t)
	if x := m.Indices[0]; x.State == progress.Failed || len(m.Failures) != 1 || m.Failures[0].Reason != x.Error || !strings.HasPrefix(x.Error, "the target refuses the alias w of to, all else is there: second write index; change the alias") {
		t.Errorf("%+v, failures %+v", x, m.Failures)
	}
}

// read sums up the coordination store.
func read(ctx context.Context, c *cms.Coordinator) (*progress.Migration, error) {
	r, err := progress.ReadStore(ctx, c)
	if err != nil {
		return nil, err
	}
	m, _ := r.Sum()
	return m, nil
}
