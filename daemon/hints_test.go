package daemon

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// neighbours are the other nodes of a fleet, controlled by the test.
type neighbours struct {
	mu              sync.Mutex
	position, count int
	plan            schedule.Plan
	names           []string
	started         map[string]time.Time
	gone            []status.Node
	behind          []string // that follow nothing
	wishes          int
	followed        int
	poison          []string
}

func (f *neighbours) Share() (int, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.position, f.count
}

func (f *neighbours) Nodes() (all []status.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.names {
		follows := int64(1) << 60
		if slices.Contains(f.behind, n) {
			follows = 1
		}
		all = append(all, status.Node{Name: n, State: "running", Order: follows, Started: f.started[n]})
	}
	return all
}

func (f *neighbours) Gone() []status.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.gone)
}

func (f *neighbours) Plan() schedule.Plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plan
}

func (f *neighbours) propose(p schedule.Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = p
}

func (f *neighbours) IntentChanged() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wishes++
}

func (f *neighbours) IntentFollowed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followed++
}

func (f *neighbours) ItemPoisoned(item string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.poison = append(f.poison, item)
}

func (f *neighbours) read() (wishes int, poison []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wishes, slices.Clone(f.poison)
}

// metricsOf returns the metrics of a node as Prometheus reads them.
func metricsOf(d *Daemon) string {
	rec := httptest.NewRecorder()
	d.Metrics().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return rec.Body.String()
}

// rateTold returns the last rate that a worker was sent, -1 for none.
func rateTold(w *fakeWorker, of limited) int64 {
	_, _, orders := w.read()
	rate, number := int64(-1), int64(0) // orders may overtake each other: the highest number counts
	for _, o := range orders {
		if r := o.rate(of); r != nil && r.Number > number {
			rate, number = r.BytesPerSecond, r.Number
		}
	}
	return rate
}

// TestAProposedNumberOnlyShrinksAndTheOperatorsCounts: a hint may reduce the workers of a node that chooses the number itself; it adds
// none, and has no effect if an operator has set the number.
func TestAProposedNumberOnlyShrinksAndTheOperatorsCounts(t *testing.T) {
	for _, c := range []struct {
		name     string
		workers  int // of the configuration; 0: auto
		operator *int
		plan     int
		want     int
	}{
		{"nothing is proposed", 0, nil, 0, 4},
		{"fewer are proposed", 0, nil, 4, 2},
		{"more are proposed than the node bears", 0, nil, 100, 4},
		{"a number is configured", 3, nil, 2, 3},
		{"the operator has said a number", 0, number(6), 2, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := New(Config{Workers: c.workers, Fleet: &neighbours{count: 2, plan: schedule.Plan{Workers: c.plan}}, Log: discard()})
			d.auto = autoscale{max: 4, n: 4}
			d.store.set(&cms.Coordinator{})
			d.known, d.intent = true, session.Intent{State: session.Run, Workers: c.operator}
			if got := d.wantedWorkers(time.Now()); got != c.want {
				t.Errorf("%d workers, want %d", got, c.want)
			}
		})
	}
}

func number(n int) *int { return &n }

// Until this node has seen work grow, the end is estimated from the history of its fleet.
func TestTheEndIsEstimatedFromTheHistoryOfTheFleetAtFirst(t *testing.T) {
	f := &neighbours{count: 2, plan: schedule.Plan{Throughput: 1000}}
	d := New(Config{Fleet: f, Log: discard()})
	now := d.started
	end := func(what string, want float64) {
		t.Helper()
		left := d.view(now).Left
		if want < 0 && left != nil || want >= 0 && (left == nil || *left != want) {
			t.Errorf("%s: %v seconds left, want %v", what, left, want)
		}
	}
	read := func(done int64) {
		t.Helper()
		d.lastRead.migration = &progress.Migration{Totals: progress.Counts{Items: 5, ItemsOpen: 2, Leased: 1, Bytes: 90_000, BytesDone: done, Indexed: done / 1000}, Intent: progress.Intent{State: "run"}}
		d.measure.Add(now.Sub(d.started), d.lastRead.migration.Totals.Work())
	}
	end("nothing was read", -1)
	read(30_000)
	end("one reading", 60)
	now = now.Add(10 * time.Second)
	read(60_000)
	end("the last ten seconds", 10)
	f.propose(schedule.Plan{})
	end("no hint", 10)
	d.lastRead.migration.Intent.State, d.lastRead.migration.Totals.Leased = "pause", 0
	d.measure.Add(now.Sub(d.started), d.lastRead.migration.Totals.Work())
	end("paused", -1)
	d.lastRead.migration.Complete = true
	end("complete", -1)
}

func TestPressureOfOthersTakesWorkersAway(t *testing.T) {
	a, now := autoscale{max: 8, n: 8}, time.Now()
	var total metrics.Sample
	a.wanted(now, total, 0)
	total.Bulk.Count = 100
	if n := a.wanted(now.Add(autoscaleInterval), total, 0.5); n != 6 {
		t.Errorf("%d while the target refuses others", n)
	}
	total.Bulk.Count, total.RepoRequests, total.RepoErrors = 200, 100, 40
	if n := a.wanted(now.Add(2*autoscaleInterval), total, 0); n != 4 {
		t.Errorf("%d while the repository throttles", n)
	}
}

func TestANodeIsDrainedByItsNameAndResumed(t *testing.T) {
	f := &neighbours{count: 2, names: []string{"n1", "other"}}
	n := runNode(t, Config{Name: "n1", Workers: 2, Fleet: f, Peers: f}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 2)
	if err := n.order(t, "drain", nil, "n3"); !isConfig(err) || !strings.Contains(err.Error(), "other") {
		t.Errorf("a name of no node: %v", err)
	}
	if err := n.order(t, "drain", nil, "other"); err != nil {
		t.Fatal(err)
	}
	if r := n.Status(t.Context()); r.Nodes[1].State != "drained" || r.Nodes[0].State != "running" || r.Node.State != "running" {
		t.Errorf("%+v, %+v", r.Nodes, r.Node)
	}
	if err := n.order(t, "drain", nil, "n1"); err != nil {
		t.Fatal(err)
	}
	n.untilRunning(t, 0)
	if r := n.Status(t.Context()); r.Node.State != "drained" {
		t.Errorf("%+v", r.Node)
	}
	if l := n.Load(); l.MaxWorkers != 0 {
		t.Errorf("a drained node offers %+v", l)
	}
	if err := n.order(t, "resume", nil, "n1"); err != nil {
		t.Fatal(err)
	}
	n.untilRunning(t, 2)
	if i, err := session.OrdersOf(n.store).Intent(t.Context()); err != nil || !slices.Equal(i.Drained, []string{"other"}) {
		t.Errorf("%+v, %v", i, err)
	}
	if wishes, _ := f.read(); wishes != 3 {
		t.Errorf("the others heard %d times of a wish", wishes)
	}
}

func isConfig(err error) bool { return errors.Is(err, fault.ErrConfig) }

func TestAWordOfAWishHasTheStoreReadAtOnce(t *testing.T) {
	n := runNode(t, Config{Workers: 1, IntentInterval: time.Hour}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 1)
	if _, err := session.OrdersOf(n.store).Issue(t.Context(), session.Order{Kind: session.OrderPause, Who: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	n.ReadIntent()
	n.untilRunning(t, 0)
}

func TestAnItemThatBreaksAWorkerIsToldToOthers(t *testing.T) {
	f := &neighbours{count: 2}
	n := runNode(t, Config{Workers: 1, Fleet: f, Peers: f, Scheduler: &schedule.Scheduler{}}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 1)
	w := n.starter.living()[0]
	w.report(Record{Lease: &Lease{Item: "item1", Holder: "h", LeftMs: 60_000}})
	w.end(End{Code: 2})
	until(t, "the others hear of it", func() bool { _, poison := f.read(); return slices.Contains(poison, "item1") })
}
