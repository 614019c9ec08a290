package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// memory is a coordination store in memory, under the clock of the test.
type memory struct {
	mu      sync.Mutex
	items   map[string]cms.Item
	records map[string]cms.Record
	rev     int64
	strange []error // changes of phases that the table does not know
}

// follows reports whether the table lets a state follow another.
func follows(phase, was, is string) error {
	row, err := rowFor(phase, was)
	if err != nil {
		return err
	}
	if was != is && !slices.Contains(row.Next, is) && !slices.Contains(row.Again, is) {
		return fmt.Errorf("phase %s went from %q to %q", phase, was, is)
	}
	return nil
}

func newMemory() *memory {
	return &memory{items: map[string]cms.Item{}, records: map[string]cms.Record{}}
}

func (m *memory) Create(_ context.Context, items []cms.Item) (created int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range items {
		if _, there := m.items[it.ID]; !there {
			m.items[it.ID] = it
			created++
		}
	}
	return created, nil
}

func (m *memory) Apply(_ context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it, there := m.items[id]
	if !there {
		return it, 0, cms.ErrNotFound
	}
	it, v := t.Apply(it, time.Now().UnixMilli())
	m.items[id] = it
	return it, v, nil
}

func (m *memory) ApplyAll(ctx context.Context, changes []cms.Change) ([]cms.Outcome, error) {
	outcomes := make([]cms.Outcome, len(changes))
	for i, c := range changes {
		outcomes[i].Item, outcomes[i].Result, outcomes[i].Err = m.Apply(ctx, c.ID, c.Transition)
	}
	return outcomes, nil
}

func (m *memory) Get(_ context.Context, id string) (cms.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it, there := m.items[id]
	if !there {
		return it, cms.ErrNotFound
	}
	return it, nil
}

func (m *memory) Now(context.Context) (time.Time, time.Duration, error) { return time.Now(), 0, nil }

func (m *memory) Candidates(context.Context, time.Duration, int) ([]cms.Item, error) {
	return nil, nil
}

func (m *memory) Open(context.Context) (cms.Open, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var o cms.Open
	for id, it := range m.items {
		if id != cms.SetupID && it.Open() {
			o.Items++
		}
	}
	return o, nil
}

func (m *memory) Incarnation(context.Context) (string, error) { return "of this test", nil }

// OfKind returns the store itself: there are only shards.
func (m *memory) OfKind(context.Context, string) (cms.Store, error) { return m, nil }

func (m *memory) Scan(context.Context) iter.Seq2[cms.Item, error] {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.items))
	m.mu.Unlock()
	return func(yield func(cms.Item, error) bool) {
		for _, it := range all {
			if !yield(it, nil) {
				return
			}
		}
	}
}

func (m *memory) Record(_ context.Context, id string) (cms.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, there := m.records[id]
	if !there {
		return r, cms.ErrNotFound
	}
	return r, nil
}

func (m *memory) Put(_ context.Context, r cms.Record) (cms.Revision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[r.ID].Revision != r.Revision {
		return cms.Revision{}, cms.ErrConflict
	}
	if phase, ok := strings.CutPrefix(r.ID, "phase:"); ok {
		if err := follows(phase, m.records[r.ID].State, r.State); err != nil {
			m.strange = append(m.strange, err)
		}
	}
	m.rev++
	r.Revision = cms.Revision{Seq: m.rev, Term: 1}
	m.records[r.ID] = r
	return r.Revision, nil
}

func (m *memory) Delete(context.Context, cms.Record) error { return errors.ErrUnsupported }

func (m *memory) List(_ context.Context, kind string) iter.Seq2[cms.Record, error] {
	m.mu.Lock()
	var all []cms.Record
	for _, id := range slices.Sorted(maps.Keys(m.records)) {
		if r := m.records[id]; r.Kind == kind {
			all = append(all, r)
		}
	}
	m.mu.Unlock()
	return func(yield func(cms.Record, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// life is a process that dies at its n-th call to the outside, before the call has an
// effect or after it.
type life struct {
	mu    sync.Mutex
	calls int
	dies  int // at this call; 0: never
	after bool
	dead  bool
	fails error         // the answer to the n-th call: the process lives on; nil: it dies
	lasts time.Duration // of the time in which every call from the n-th on fails; 0: only that call does
	until time.Time     // its end; zero before
}

var errDead = errors.New("the process is dead")

// call runs an effect unless the process is dead.
func (l *life) call(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	l.calls++
	if l.calls == l.dies && l.lasts > 0 {
		l.until = time.Now().Add(l.lasts)
	}
	if l.calls == l.dies || time.Now().Before(l.until) {
		if l.after {
			f()
		}
		if l.fails != nil {
			return l.fails
		}
		l.dead = true
		return errDead
	}
	f()
	return nil
}

// mortal is the store as a process sees it.
type mortal struct {
	cms.Store
	life *life
}

func (m mortal) Create(ctx context.Context, items []cms.Item) (n int, err error) {
	if derr := m.life.call(func() { n, err = m.Store.Create(ctx, items) }); derr != nil {
		return 0, derr
	}
	return n, err
}

func (m mortal) Apply(ctx context.Context, id string, t cms.Transition) (it cms.Item, v cms.Result, err error) {
	if derr := m.life.call(func() { it, v, err = m.Store.Apply(ctx, id, t) }); derr != nil {
		return cms.Item{}, 0, derr
	}
	return it, v, err
}

func (m mortal) ApplyAll(ctx context.Context, changes []cms.Change) (outcomes []cms.Outcome, err error) {
	if derr := m.life.call(func() { outcomes, err = m.Store.ApplyAll(ctx, changes) }); derr != nil {
		return nil, derr
	}
	return outcomes, err
}

func (m mortal) Put(ctx context.Context, r cms.Record) (v cms.Revision, err error) {
	if derr := m.life.call(func() { v, err = m.Store.Put(ctx, r) }); derr != nil {
		return cms.Revision{}, derr
	}
	return v, err
}

func (m mortal) Record(ctx context.Context, id string) (r cms.Record, err error) {
	if derr := m.life.call(func() { r, err = m.Store.Record(ctx, id) }); derr != nil {
		return cms.Record{}, derr
	}
	return r, err
}

// outside are the clusters: what was asked of them, and what they hold.
type outside struct {
	mu        sync.Mutex
	snapshots map[string]live.State
	ends      string
	created   map[string]int // accepted creations by what was created
	uuids     map[string]string
	bodies    map[string]json.RawMessage // of indices, with the mark that they were created with
	aliases   map[string]string
	refuse    map[string]string // index → why
	refused   map[string]error  // alias → why
	wrong     map[string]error  // index → why
	late      string            // aliases that wait for the documents; "": one
	globals   error
	sent      int // creations of globals that were asked for
	busy      int // refusals to begin a snapshot because of another
}

func newOutside() *outside {
	return &outside{snapshots: map[string]live.State{}, ends: "SUCCESS", created: map[string]int{}, uuids: map[string]string{}, bodies: map[string]json.RawMessage{}, aliases: map[string]string{}, refuse: map[string]string{}}
}

// seen is the outside as one process sees it.
type seen struct {
	*outside
	life *life
}

// do runs an effect on the outside while the process lives.
func (x seen) do(f func() error) error {
	var err error
	derr := x.life.call(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		err = f()
	})
	return errors.Join(derr, err)
}

func (x seen) Register(context.Context) (bool, error) {
	return false, x.do(func() error { return nil })
}

func (x seen) Create(_ context.Context, name string) (created bool, err error) {
	err = x.do(func() error {
		if x.busy > 0 {
			x.busy--
			return fmt.Errorf("a snapshot is already running: %w", live.ErrBusy)
		}
		if _, there := x.snapshots[name]; !there {
			x.snapshots[name] = live.State{UUID: "uuid of " + name, State: "IN_PROGRESS", ShardsTotal: 4, BytesTotal: 400}
			x.created["snapshot "+name]++
			created = true
		}
		return nil
	})
	return created, err
}

func (x seen) State(_ context.Context, name string) (st live.State, err error) {
	err = x.do(func() error {
		s, there := x.snapshots[name]
		if !there {
			return fmt.Errorf("snapshot_missing: %w", fs.ErrNotExist)
		}
		if s.State == "IN_PROGRESS" && s.ShardsDone < 4 {
			s.ShardsDone++
			s.BytesDone += 100
			if s.ShardsDone == 4 {
				s.State = x.ends
			}
			x.snapshots[name] = s
		}
		st = s
		return nil
	})
	return st, err
}

func (x seen) migrateGlobals(context.Context, *plan.Plan, objects.Ledger) (r creation.GlobalsResult, err error) {
	err = x.do(func() error {
		x.sent++
		if x.globals != nil {
			return x.globals
		}
		x.created["templates"] = 1
		r.Created = []string{"template t"}
		return nil
	})
	return r, err
}

func (x seen) Check(context.Context, *plan.Plan) error { return nil }

func (x seen) Absent(_ context.Context, names []string) (absent []string, err error) {
	err = x.do(func() error {
		for _, n := range names {
			if x.uuids[n] == "" {
				absent = append(absent, n)
			}
		}
		return nil
	})
	return absent, err
}

func (x seen) Make(_ context.Context, p plan.Index) (made creation.Made, err error) {
	err = x.do(func() error {
		if err := x.wrong[p.Name]; err != nil {
			x.created["tried "+p.Name]++
			return err
		}
		if why := x.refuse[p.Name]; why != "" {
			return fmt.Errorf("%s: %w", why, fault.ErrRejected)
		}
		for _, n := range p.Entry.Naming.Targets() {
			if x.uuids[n] == "" {
				x.created["index "+n]++
				x.uuids[n] = "uuid of " + n
				if x.bodies[n], err = p.Mark.Put(p.MarkKind(), n, json.RawMessage(`{}`)); err != nil {
					return err
				}
				made.Created = append(made.Created, n)
			}
		}
		made.Originals = true
		made.Late = map[string]json.RawMessage{p.Name: json.RawMessage(cmp.Or(x.late, `{"alias-of-`+p.Name+`":{}}`))}
		return nil
	})
	return made, err
}

func (x seen) Aliases(_ context.Context, p plan.Index) (map[string]json.RawMessage, error) {
	return map[string]json.RawMessage{p.Name: json.RawMessage(cmp.Or(x.late, `{"alias-of-`+p.Name+`":{}}`))}, nil
}

func (x seen) SetAliases(_ context.Context, index string, aliases json.RawMessage) error {
	return x.do(func() error {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(aliases, &all); err != nil {
			return err
		}
		for name := range all {
			if err := x.refused[name]; err != nil {
				return err
			}
		}
		merged := map[string]json.RawMessage{}
		_ = json.Unmarshal([]byte(x.aliases[index]), &merged)
		maps.Copy(merged, all)
		body, err := json.Marshal(merged)
		x.aliases[index] = string(body)
		return err
	})
}

func (x seen) IndexUUID(_ context.Context, name string) (uuid string, err error) {
	err = x.do(func() error {
		if uuid = x.uuids[name]; uuid == "" {
			return fmt.Errorf("index_not_found: %w", fs.ErrNotExist)
		}
		return nil
	})
	return uuid, err
}

// threeIndices is a snapshot with two shards in each of three indices.
func threeIndices() *plan.Plan {
	p := &plan.Plan{Snapshot: "rfs-s", UUID: "uuid of rfs-s"}
	for _, name := range []string{"a", "b", "c"} {
		p.Indices = append(p.Indices, plan.Index{Name: name, Source: &snapshot.Index{Name: name}, Entry: plan.Entry{
			Locator: snapshot.Locator{IndexName: name}, Naming: plan.Naming{Index: name}, Shards: 2,
		}})
	}
	return p
}

// process is a worker that sees the store and the clusters for as long as it lives.
func process(t *testing.T, store cms.Store, x *outside, n int, l *life) *Session {
	t.Helper()
	coordinator, err := cms.New(cms.Config{Store: mortal{store, l}, Creator: "test", InitialLease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	on, log := seen{x, l}, slog.New(slog.DiscardHandler)
	return &Session{
		Coordinator: coordinator, Holder: fmt.Sprint("process", n), Log: log, Settings: map[string]string{"snapshot": ""},
		Phases:    Phases{PhaseSnapshot, PhaseMetadata, PhaseIndices, PhaseDocuments},
		Snapshot:  SnapshotOptions{Name: "rfs-s", Derived: true, Repository: "r"},
		Snapshots: on, Globals: on.migrateGlobals, Indices: on, Targets: on,
		Plan:   func(context.Context, string) (*plan.Plan, error) { return threeIndices(), nil },
		Runner: &engine.Runner{Clock: cms.SystemClock(), Log: log},
	}
}

// toItems runs the phases of one process up to the items, or until an error.
func toItems(ctx context.Context, s *Session) error {
	if err := s.Join(ctx); err != nil {
		return err
	}
	if s.planned == nil {
		s.planned = threeIndices() // this process reads the snapshot itself
	}
	for {
		st, _, err := s.next(ctx)
		var busy *cms.NoneAvailable
		switch {
		case errors.As(err, &busy):
			err = s.waitForOthers(ctx, st, busy)
		case err == nil && st.Does == WorkOnItem:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// remains is what a migration leaves behind, without times, holders and attempts.
func remains(m *memory, x *outside) string {
	var b strings.Builder
	for _, err := range m.strange {
		fmt.Fprintln(&b, err)
	}
	for _, id := range slices.Sorted(maps.Keys(m.records)) {
		r := m.records[id]
		if r.Kind == "meta" {
			continue
		}
		fmt.Fprintf(&b, "%s %s %q %s\n", id, r.State, r.Error, r.Body)
	}
	for _, id := range slices.Sorted(maps.Keys(m.items)) {
		it := m.items[id]
		fmt.Fprintf(&b, "%s open=%v %q\n", id, it.Open(), it.Failure)
	}
	fmt.Fprintf(&b, "%v %v\n", x.created, x.uuids)
	return b.String()
}

// TestEveryDeathInThePhasesIsResumed lets a process die at each of its calls to the store
// and to the clusters, once before and once after the call had its effect. Another
// process goes on, and what is there in the end is what one process alone leaves.
func TestEveryDeathInThePhasesIsResumed(t *testing.T) {
	alone := &life{}
	want := ""
	synctest.Test(t, func(t *testing.T) {
		m, x := newMemory(), newOutside()
		if err := toItems(t.Context(), process(t, m, x, 1, alone)); err != nil {
			t.Fatal(err)
		}
		want = remains(m, x)
	})
	for _, word := range []string{"phase:snapshot COMPLETED", "phase:metadata COMPLETED", "phase:index COMPLETED", "phase:docs IN_PROGRESS", "index a:1 ", "snapshot rfs-s:1", `"ours":["a"]`, `"originals":true`, `"late_aliases":{"a"`} {
		if !strings.Contains(want, word) {
			t.Fatalf("one process alone leaves no %q:\n%s", word, want)
		}
	}
	for call := 1; call <= alone.calls; call++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m, x := newMemory(), newOutside()
				first := &life{dies: call, after: after}
				if err := toItems(t.Context(), process(t, m, x, 1, first)); !first.dead {
					t.Fatalf("call %d: the process ended with %v", call, err)
				}
				if err := toItems(t.Context(), process(t, m, x, 2, &life{})); err != nil {
					t.Fatalf("death at call %d (after: %v): %v", call, after, err)
				}
				if got := remains(m, x); got != want {
					t.Errorf("death at call %d (after: %v):\n%s\nalone:\n%s", call, after, got, want)
				}
			})
		}
	}
	t.Logf("%d points of death", 2*alone.calls)
}

// TestFiveProcessesDoEverythingOnce starts five processes at the same moment.
func TestFiveProcessesDoEverythingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, x := newMemory(), newOutside()
		var all sync.WaitGroup
		for n := range 5 {
			s := process(t, m, x, n, &life{})
			all.Go(func() {
				if err := toItems(t.Context(), s); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, what := range []string{"snapshot rfs-s", "templates", "index a", "index b", "index c"} {
			if x.created[what] != 1 {
				t.Errorf("%s was created %d times", what, x.created[what])
			}
		}
		if x.sent != 1 {
			t.Errorf("templates were asked for %d times", x.sent)
		}
		if len(m.items) != 7 {
			t.Errorf("%d items", len(m.items))
		}
	})
}
