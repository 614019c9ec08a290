package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
)

// rateNode starts a node of two workers whose permit the test sets.
func rateNode(t *testing.T, of limited) (*node, primitive.Spender) {
	t.Helper()
	held := make(chan primitive.Spender, 1)
	limit := Limit{Most: 8000, Hold: func(ctx context.Context, s primitive.Spender) error {
		held <- s
		<-ctx.Done()
		return nil
	}}
	conf := Config{Workers: 2, Send: limit}
	if of == reads { // beside another limit, which is the node's own
		conf.Send, conf.Read = Limit{Most: 100}, limit
	}
	n := startNode(t, conf, &fakeStarter{stopped: handsOff})
	return n, <-held
}

// TestTheWorkersOfANodeKeepToItsPermit: the parts of all workers together never exceed the part of the node, and a rate that a worker may
// still use is neither given to another one nor released.
func TestTheWorkersOfANodeKeepToItsPermit(t *testing.T) {
	for of, metric := range []string{sends: "rfsd_rate_limit_bytes_per_second", reads: "rfsd_read_rate_limit_bytes_per_second"} {
		t.Run(metric, func(t *testing.T) { keepsToItsPermit(t, limited(of), metric) })
	}
}

func keepsToItsPermit(t *testing.T, of limited, metric string) {
	synctest.Test(t, func(t *testing.T) {
		n, permit := rateNode(t, of)
		time.Sleep(time.Second)
		synctest.Wait()
		all := n.starter.living()
		each := func(what string, a, b, inUse int64) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			if x, y := rateTold(all[0], of), rateTold(all[1], of); x != a || y != b || permit.InUse() != inUse {
				t.Errorf("%s: %d and %d, want %d and %d; %d in use, want %d", what, x, y, a, b, permit.InUse(), inUse)
			}
		}
		if permit.Weight() != 2 || len(all) != 2 {
			t.Errorf("a weight of %d, %d workers", permit.Weight(), len(all))
		}
		const lasts = 2 * time.Minute
		end := time.Now().Add(lasts)
		left := func() time.Duration { return time.Until(end) }
		each("no permit yet", 0, 0, 0)
		permit.Allow(6000, left)
		each("a part", 3000, 3000, 6000)
		if !strings.Contains(metricsOf(n.Daemon), "\n"+metric+" 6000\n") {
			t.Error("the metric is not the part of the node")
		}
		permit.Allow(1<<40, left)
		each("never more than the whole", 4000, 4000, 8000)

		all[1].mu.Lock()
		all[1].deaf = true
		all[1].mu.Unlock()
		permit.Allow(2000, left)
		each("a worker that reads nothing may continue with its former part", 1000, 1000, 5000)
		permit.Allow(5500, left)
		each("the other one gets what that leaves", 1500, 2750, 5500)
		all[1].end(End{Code: -1, Signal: "SIGKILL"})
		time.Sleep(2 * time.Second) // and the next one starts
		synctest.Wait()
		all = n.starter.living()
		each("it is dead", 2750, 2750, 5500)
		if o := lastRate(all[0], of); o.LeftMs <= 0 || o.LeftMs > lasts.Milliseconds() || time.Until(time.UnixMilli(o.Until)) > lasts {
			t.Errorf("%+v ends with the permit", o)
		}
		time.Sleep(2 * lasts)
		each("after the end of the permit", 2750, 2750, 0)
		permit.Allow(1000, func() time.Duration { return time.Hour })
		each("another permit", 500, 500, 1000)
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	})
}

// lastRate returns the last rate command sent to a worker.
func lastRate(w *fakeWorker, of limited) (last RateCommand) {
	_, _, orders := w.read()
	for _, o := range orders {
		if r := o.rate(of); r != nil && r.Number > last.Number {
			last = *r
		}
	}
	return last
}

func TestRateCommands(t *testing.T) {
	order := func(number, rate int64) RateCommand { return RateCommand{Number: number, BytesPerSecond: rate} }
	var r rateCommands
	for i, c := range []struct {
		change      func()
		inUse, last int64
	}{
		{func() {}, 0, 0},
		{func() { r = r.add(order(1, 50)) }, 50, 50},
		{func() { r = r.add(order(2, 20)) }, 50, 20},
		{func() { r = r.follows(1) }, 50, 20},
		{func() { r = r.add(order(3, 30)) }, 50, 30},
		{func() { r = r.follows(3) }, 30, 30},
		{func() { r = r.follows(2) }, 30, 30},
		{func() {
			for number := range int64(3 * maxRateCommands) {
				r = r.add(order(4+number, 1))
			}
		}, 30, 1},
	} {
		if c.change(); r.inUse() != c.inUse || r.last() != c.last || len(r) > maxRateCommands {
			t.Errorf("%s: %d in use, the last one is of %d, want %d and %d", fmt.Sprint("step ", i), r.inUse(), r.last(), c.inUse, c.last)
		}
	}
}

// TestOnlyLeasesCountForTheRate: workers that searched for an item in vain kept the part of their node from the worker that had work.
func TestOnlyLeasesCountForTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, permit := rateNode(t, sends)
		weighs := func(what string, after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := permit.Weight(); got != want {
				t.Errorf("%s: %d, want %d", what, got, want)
			}
		}
		weighs("at the start", time.Second, 2)
		weighs("no worker has a lease", time.Minute, 0)
		w := n.starter.living()[0]
		w.report(Record{Lease: &Lease{Item: "bG9ncw__0__0", Holder: "w_1", LeftMs: 600_000}})
		weighs("one has a lease", time.Minute, 1)
		w.report(Record{Lease: &Lease{}})
		weighs("it has just ended", time.Second, 1)
		weighs("long ago", time.Minute, 0)
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	})
}
