// Package sim runs the lease protocol in a world of its own: virtual time, a
// store that loses requests and answers, workers that die, stop and misread the
// clock. Exactly one goroutine runs at a time and every choice comes from one
// seed, so a seed replays.
package sim

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// epoch is the true time at which every world begins.
var epoch = time.UnixMilli(1_700_000_000_000)

type event struct {
	at  time.Duration
	seq int
	run func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// World is the scheduler: a queue of events in virtual time.
type World struct {
	r     *rand.Rand
	now   time.Duration // since epoch
	seq   int
	queue events
	yield chan struct{} // the running process gives control back
	live  int           // processes that run, or died and were not replaced yet
	stop  bool          // every process ends as soon as it gets control

	processes map[*Process]struct{} // whose goroutines have not ended
	running   sync.WaitGroup        // those goroutines
}

// NewWorld makes an empty world.
func NewWorld(seed uint64) *World {
	return &World{r: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)), yield: make(chan struct{}), processes: map[*Process]struct{}{}}
}

// After runs f at a later time, on the scheduler.
func (w *World) After(d time.Duration, f func()) {
	w.seq++
	heap.Push(&w.queue, event{at: w.now + max(0, d), seq: w.seq, run: f})
}

// Run executes events until no process lives or the time is over; it reports
// whether all processes ended by themselves. No goroutine of the world is left.
func (w *World) Run(limit time.Duration) bool {
	defer w.end()
	for w.queue.Len() > 0 && w.live > 0 {
		e := heap.Pop(&w.queue).(event)
		if e.at > limit {
			return false
		}
		w.now = e.at
		e.run()
	}
	return true
}

// end lets every process end that stands still: dead ones whose next moment lies
// beyond the end of the world, and live ones when the time is over. The scheduler has
// control, so each goroutine that has not ended waits to be woken.
func (w *World) end() {
	w.stop = true
	for p := range w.processes {
		p.wake <- struct{}{}
		<-w.yield
	}
	w.running.Wait()
}

// Process is a machine with one worker. Its clocks may be wrong.
type Process struct {
	w     *World
	wake  chan struct{}
	dead  bool
	until time.Duration // it stands still before that
	skew  time.Duration // of the wall clock
	slept time.Duration // time the machine was suspended: the monotonic clock missed it
	last  time.Duration // boot-time reading at the last validation
}

// Go starts a process.
func (w *World) Go(f func(*Process)) *Process {
	p := &Process{w: w, wake: make(chan struct{})}
	w.live++
	w.processes[p] = struct{}{}
	w.running.Go(func() {
		defer func() {
			delete(w.processes, p)
			if !p.dead {
				w.live--
			}
			w.yield <- struct{}{}
		}()
		<-p.wake
		if p.gone() {
			return
		}
		f(p)
	})
	w.After(0, p.resume)
	return p
}

func (p *Process) gone() bool { return p.dead || p.w.stop }

// resume gives the process control until it parks or ends.
func (p *Process) resume() {
	if p.until > p.w.now && !p.dead {
		p.w.After(p.until-p.w.now, p.resume)
		return
	}
	p.wake <- struct{}{}
	<-p.w.yield
}

// park stands still for d; a process that was killed meanwhile ends here.
func (p *Process) park(d time.Duration) {
	p.w.After(d, p.resume)
	p.w.yield <- struct{}{}
	<-p.wake
	if p.gone() {
		runtime.Goexit()
	}
}

// Kill ends the process where it stands: nothing of it runs any more.
func (p *Process) Kill() { p.dead = true }

// Suspend stops the machine; its monotonic clock stops too.
func (p *Process) Suspend(d time.Duration) {
	p.until = max(p.until, p.w.now+d)
	p.slept += d
}

// Freeze stops the process only (SIGSTOP); all clocks run on.
func (p *Process) Freeze(d time.Duration) { p.until = max(p.until, p.w.now+d) }

// Read gives this machine's clocks.
func (p *Process) Read() cms.Reading {
	return cms.Reading{Wall: epoch.Add(p.w.now + p.skew), Mono: p.w.now - p.slept, Boot: p.w.now}
}

// Sleep parks.
func (p *Process) Sleep(ctx context.Context, d time.Duration) error {
	p.park(d)
	return ctx.Err()
}

func (w *World) chance(p float64) bool { return w.r.Float64() < p }

func (w *World) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.r.Int64N(int64(hi-lo)+1))
}
