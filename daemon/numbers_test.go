package daemon

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
)

// TestStatus_WorkersRateIsOfTheLastMinute has a worker whose documents arrive in batches of a thousand every five seconds: the rate is
// always 200 per second. The list of nodes shows the same number of workers as the node itself.
func TestStatus_WorkersRateIsOfTheLastMinute(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		starter := &fakeStarter{stopped: handsOff}
		n := startNode(t, Config{Workers: 1, Fleet: &neighbours{count: 2, names: []string{"n1", "n2"}}}, starter)
		n.untilRunning(t, 1)
		w := starter.living()[0]
		for second := range 120 {
			time.Sleep(time.Second)
			w.report(Record{Sample: &metrics.Sample{Documents: int64(second / 5 * 1000)}})
			r := n.Status(t.Context())
			if rate := r.Workers[0].Rate; second >= 15 && (rate < 150 || rate > 250) {
				t.Fatalf("%.0f documents per second after %d s", rate, second)
			}
			for _, x := range r.Nodes {
				if x.Name == r.Node.Name && x.Running != r.Node.Running {
					t.Fatalf("%d workers in the list of nodes, %d in the status", x.Running, r.Node.Running)
				}
			}
		}
		for range 120 { // no document arrives
			time.Sleep(time.Second)
			w.report(Record{Sample: &metrics.Sample{Documents: 23_000}})
		}
		if rate := n.Status(t.Context()).Workers[0].Rate; rate > 100 {
			t.Errorf("%.0f documents per second two minutes after the last one", rate)
		}
		must(t, n.stop())
	})
}

// TestStatus_WorkerHeldBack: while a worker reports why it sends nothing, the node is paused for that reason.
func TestStatus_WorkerHeldBack(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		starter := &fakeStarter{stopped: handsOff}
		n := startNode(t, Config{Workers: 2}, starter)
		n.untilRunning(t, 2)
		for _, c := range []struct{ held, state string }{{"a disk is full", "paused"}, {"", "running"}} {
			starter.living()[1].report(Record{Sample: &metrics.Sample{Held: c.held}})
			time.Sleep(time.Second)
			if is := n.Status(t.Context()).Node; is.State != c.state || is.Reason != c.held || is.Wanted != 2 || is.Running != 2 {
				t.Errorf("%+v, want %+v", is, c)
			}
		}
		must(t, n.stop())
	})
}

// TestStatus_RateOfShortWorkers: workers that end within a second or two, as with many small shards, send at most one sample before the
// final one. The rate of their slot includes all of them, and falls when no worker runs any more.
func TestStatus_RateOfShortWorkers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		starter := &fakeStarter{stopped: handsOff, born: func(w *fakeWorker) {
			for _, documents := range []int64{600, 900} {
				time.Sleep(700 * time.Millisecond)
				w.report(Record{Sample: &metrics.Sample{Documents: documents}})
			}
			w.exit(ExitDone, Record{Outcome: "done", Item: "x"})
		}}
		n := startNode(t, Config{Workers: 1}, starter)
		n.untilRunning(t, 1)
		for second := range 60 {
			time.Sleep(time.Second)
			if rate := n.Status(t.Context()).Workers[0].Rate; second >= 15 && (rate < 400 || rate > 700) {
				t.Errorf("%.0f documents per second after %d s; each worker sends 900 in 1.4 s", rate, second)
			}
		}
		must(t, n.stop())
		time.Sleep(2 * time.Second) // the last worker ends
	})
}
