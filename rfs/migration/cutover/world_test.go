package cutover_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/cutover"
	"github.com/rfsd/rfsd/rfs/source/difference"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// world is a source, a store and a snapshot, which outlive the processes that cut over.
type world struct {
	t       *testing.T
	all     *cms.Coordinator
	records session.Cutovers
	rounds  session.Rounds
	orders  session.Orders
	repo    snapshot.Repository
	indices []live.Index
	shards  map[string]map[int]live.Shard
	round   func(ctx context.Context) (cutover.Round, error)
	failed  int64
	uuid    string        // of the source
	slow    time.Duration // until a write block is in force
	late    []string      // indices to which a request to block is on its way
	ended   int           // calls of Finish
	quiet   map[int]bool  // rounds that started after all writes were blocked
	groups  [][]string    // of the rounds
	calls   atomic.Int64
	at      atomic.Pointer[func(call int64, name string) error]
}

// inject has f called before each step of a process, with its number and name; its error fails the step. Steps are taken by several
// goroutines.
func (w *world) inject(f func(call int64, name string) error) {
	if f == nil {
		w.at.Store(nil)
		return
	}
	w.at.Store(&f)
}

const last = "snap-3"

// newWorld returns a world whose source holds what the last snapshot has.
func newWorld(t *testing.T) *world {
	t.Helper()
	store := boltstore.Open(t)
	dir, err := filepath.Abs("../../../testing/fixtures/7.10.2-history")
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := repo.Open(t.Context(), "file://"+dir, repo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	w := &world{t: t, all: c, records: session.CutoversOf(c), rounds: session.RoundsOf(c), orders: session.OrdersOf(c), repo: blobs, shards: map[string]map[int]live.Shard{}}
	w.round = func(context.Context) (cutover.Round, error) { return cutover.Round{Number: 7, Snapshot: last}, nil }
	catalog, err := snapshot.OpenCatalog(t.Context(), blobs)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := catalog.Snapshot(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range snap.Indices {
		index, err := snap.Index(t.Context(), x.Name)
		if err != nil {
			t.Fatal(err)
		}
		w.indices = append(w.indices, live.Index{Name: x.Name, UUID: index.Settings["index.uuid"]})
		w.shards[x.Name] = map[int]live.Shard{}
		for n := range index.NumShards {
			commit, err := difference.OpenCommit(t.Context(), blobs, index.Locator, n)
			if err != nil {
				t.Fatal(err)
			}
			top, _, err := difference.MaxSeqNo(commit)
			if err != nil {
				t.Fatal(err)
			}
			w.shards[x.Name][n] = live.Shard{MaxSeqNo: top, Numbered: true, Live: commit.LiveDocs}
		}
	}
	if _, err := w.rounds.Start(t.Context(), session.Round{Snapshot: "snap-1"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) step(ctx context.Context, name string) error {
	call := w.calls.Add(1)
	if f := w.at.Load(); f != nil {
		if err := (*f)(call, name); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// process is a process that cuts over. Its methods are those of the store and of the source.
type process struct{ *world }

func (p process) Read(ctx context.Context) (is session.Cutover, now time.Time, err error) {
	if err := p.step(ctx, "read"); err != nil {
		return is, now, err
	}
	return p.records.Read(ctx)
}

func (p process) Move(ctx context.Context, from session.Cutover, f func(*session.Cutover, int64)) (is session.Cutover, err error) {
	if err := p.step(ctx, "move"); err != nil {
		return is, err
	}
	if is, err = p.records.Move(ctx, from, f); err != nil {
		return is, err
	}
	return is, p.step(ctx, "moved")
}

func (p process) Return(ctx context.Context, reason string) (is session.Cutover, err error) {
	if err := p.step(ctx, "return"); err != nil {
		return is, err
	}
	return p.records.Return(ctx, reason)
}

func (p process) Indices(ctx context.Context, selects func(string) bool) (all []live.Index, err error) {
	for _, x := range p.indices {
		if selects(x.Name) {
			all = append(all, x)
		}
	}
	return all, p.step(ctx, "indices")
}

func (p process) set(names []string, blocked bool) {
	if !blocked {
		clear(p.quiet) // the source takes writes that no former round has
	}
	for i, x := range p.indices {
		if slices.Contains(names, x.Name) {
			p.indices[i].Blocked = blocked
		}
	}
}

func (p process) Block(ctx context.Context, names []string) error {
	if err := p.step(ctx, "block"); err != nil {
		return err
	}
	select {
	case <-ctx.Done(): // the request is on its way
		p.late = names
		return ctx.Err()
	case <-time.After(p.slow):
	}
	p.set(names, true)
	return p.step(ctx, "blocked")
}

func (p process) Unblock(ctx context.Context, names []string) error {
	if err := p.step(ctx, "unblock"); err != nil {
		return err
	}
	p.set(names, false)
	return p.step(ctx, "unblocked")
}

func (p process) Shards(ctx context.Context, names []string) (map[string]map[int]live.Shard, error) {
	return p.shards, p.step(ctx, "shards")
}

// start returns a process that cuts over.
func (w *world) start() *cutover.Cutover {
	p := process{w}
	return &cutover.Cutover{
		Records: p, Intent: w.orders.Intent, Program: "rfsd run --follow", MayBlock: true, Selects: func(name string) bool { return name != "system" }, Repo: w.repo, Clock: timing.SystemClock(), Log: slog.New(slog.DiscardHandler),
		Connect: func(ctx context.Context) (cutover.Source, string, error) { return p, w.uuid, p.step(ctx, "connect") },
		Round: func(ctx context.Context, group []string) (cutover.Round, error) {
			w.groups = append(w.groups, group)
			if err := p.step(ctx, "round"); err != nil {
				return cutover.Round{}, err
			}
			return w.round(ctx)
		},
		Verify: func(ctx context.Context, _ cutover.Round) error { return p.step(ctx, "verify") },
		Failed: func(context.Context) (int64, error) { return w.failed, nil },
		Move: func(ctx context.Context, indices []string) error {
			if err := p.step(ctx, "move indices"); err != nil {
				return err
			}
			return w.rounds.End(ctx, indices, true)
		},
		Finish: func(ctx context.Context) error {
			if err := p.step(ctx, "finish"); err != nil {
				return err
			}
			w.ended++
			return w.rounds.Finish(ctx)
		},
	}
}

func (w *world) order(options session.CutoverOptions) {
	w.t.Helper()
	if options.MaxOutage == 0 {
		options.MaxOutage = (10 * time.Minute).Milliseconds()
	}
	if _, err := w.records.Order(w.t.Context(), options, "test"); err != nil {
		w.t.Fatal(err)
	}
}

// blocked returns the indices that take no writes.
func (w *world) blocked() (names []string) {
	for _, x := range w.indices {
		if x.Blocked {
			names = append(names, x.Name)
		}
	}
	return names
}
