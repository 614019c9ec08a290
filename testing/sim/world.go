// Package sim runs the product's own migration in a simulated world: the real Migration, Session, Runner, Loader, export directory and
// rules over virtual time (testing/synctest), with a coordination store that loses, delays and forgets, a target that is slow, full or
// down, disks that lose unsynced data, and machines that crash, pause and have wrong clocks. Every choice depends on the seed and on its
// subject, not on the order in which goroutines run, so a seed reproduces a run.
package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// errDead is the error of calls by a killed process. They have no effect.
var errDead = errors.New("this process was killed")

// dice makes the random choices of one seed. A choice depends on its subject and on the time, so the order in which goroutines choose at
// the same moment does not matter.
type dice struct {
	seed  uint64
	start time.Time
}

// about returns the random source of the choice about a subject at this moment.
func (d dice) about(words ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, words...)
	return rand.New(rand.NewPCG(d.seed^h.Sum64(), d.seed*0x9e3779b97f4a7c15+uint64(time.Since(d.start))))
}

// between returns a random duration with nanoseconds, so that no two events happen at the same moment.
func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(max(int64(hi-lo), 0)+1)) + time.Duration(r.Int64N(1000))
}

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

// machine runs one process. Its clocks may be wrong, it may be paused, and it may crash.
type machine struct {
	name  string
	dice  dice
	start time.Time
	dead  chan struct{}
	stop  context.CancelFunc // SIGTERM

	mu      sync.Mutex
	killed  bool
	until   time.Time      // it is paused until this time
	asleep  time.Time      // since when its monotonic clock is stopped, too; zero: it runs
	slept   time.Duration  // how far the monotonic clock is behind
	skew    time.Duration  // error of the wall clock
	trouble time.Time      // time of its last fault
	moment  time.Time      // time of the last choice
	choices map[string]int // number of choices at that time, by subject
}

func newMachine(name string, d dice) *machine {
	return &machine{name: name, dice: d, start: time.Now(), dead: make(chan struct{})}
}

// about returns the random source of a choice of this machine. It also depends on the call stack, and repeated choices about a subject at
// the same moment differ: goroutines of a process that wake at the same moment run in random order.
func (m *machine) about(words ...any) *rand.Rand {
	what := fmt.Sprint(words...)
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		what += " " + f.Function
	}
	m.mu.Lock()
	if now := time.Now(); !now.Equal(m.moment) || m.choices == nil {
		m.moment, m.choices = now, map[string]int{}
	}
	n := m.choices[what]
	m.choices[what]++
	m.mu.Unlock()
	return m.dice.about(what, m.name, n)
}

// kill kills the process.
func (m *machine) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.killed {
		m.killed = true
		close(m.dead)
		m.stop()
	}
}

func (m *machine) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.killed
}

// suspend pauses the machine and its monotonic clock.
func (m *machine) suspend(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.asleep.IsZero() {
		m.asleep = now
	}
	m.until = later(m.until, now.Add(d))
	m.trouble = m.until
}

// freeze pauses the process (SIGSTOP) while all clocks continue.
func (m *machine) freeze(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = later(m.until, time.Now().Add(d))
	m.trouble = m.until
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// setSkew sets the error of the wall clock.
func (m *machine) setSkew(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skew = d
	m.trouble = later(m.trouble, time.Now())
}

// hurt records a fault that is not caused by the process.
func (m *machine) hurt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble = later(m.trouble, time.Now())
}

// hurtSince reports whether a fault occurred since t.
func (m *machine) hurtSince(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.killed || !m.trouble.Before(t)
}

// pass blocks while the machine is paused, and reports whether it was. It returns errDead if the process is dead.
func (m *machine) pass() (stood bool, err error) {
	for {
		m.mu.Lock()
		now := time.Now()
		left := m.until.Sub(now)
		if left <= 0 && !m.asleep.IsZero() {
			m.slept += m.until.Sub(m.asleep)
			m.asleep = time.Time{}
		}
		killed := m.killed
		m.mu.Unlock()
		switch {
		case killed:
			return stood, errDead
		case left <= 0:
			return stood, nil
		}
		stood = true
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-m.dead:
			t.Stop()
		}
	}
}

// wait blocks for d, and at least until the machine is no longer paused.
func (m *machine) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	var err error
	select {
	case <-t.C:
	case <-ctx.Done():
		err = ctx.Err()
	case <-m.dead:
	}
	if _, perr := m.pass(); perr != nil {
		return perr
	}
	return err
}

// Read returns the time of this machine's clocks.
func (m *machine) Read() timing.Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	slept := m.slept
	if !m.asleep.IsZero() {
		slept += now.Sub(m.asleep)
	}
	boot := now.Sub(m.start)
	return timing.Reading{Wall: now.Add(m.skew).Round(0), Mono: boot - slept, Boot: boot}
}

// Sleep blocks for d or until ctx is done.
func (m *machine) Sleep(ctx context.Context, d time.Duration) error {
	return m.wait(ctx, between(m.about("sleep", d), max(d, 0), max(d, 0)))
}

// jitter returns a random number in [0,1) for pauses of bulk requests.
func (m *machine) jitter() float64 { return m.about("jitter").Float64() }
