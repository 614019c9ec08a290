// Package sim runs the product's own migration in a world of its own: the real Migration, Session, Runner, Loader,
// export directory and rules over virtual time (testing/synctest), with a coordination store that loses, delays and
// forgets, a target that is slow, full or away, disks that forget what was not synced, and machines that die, stop and
// misread the clock. Every choice is drawn from the seed and from what it is about, not from the order in which
// goroutines run, so a seed replays.
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

// errDead ends what a killed process still does: nothing of it has an effect any more.
var errDead = errors.New("this process was killed")

// dice draws choices of one seed. A choice depends on what it is about and on the time, so it does not matter in which
// order goroutines draw at the same moment.
type dice struct {
	seed  uint64
	start time.Time
}

// about returns the random source of the choice about something at this moment.
func (d dice) about(words ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, words...)
	return rand.New(rand.NewPCG(d.seed^h.Sum64(), d.seed*0x9e3779b97f4a7c15+uint64(time.Since(d.start))))
}

// between draws a duration with nanoseconds, so that no two things happen at the same moment.
func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(max(int64(hi-lo), 0)+1)) + time.Duration(r.Int64N(1000))
}

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

// machine runs one process. Its clocks may be wrong, it may stand still, and it may die.
type machine struct {
	name  string
	dice  dice
	start time.Time
	dead  chan struct{}
	stop  context.CancelFunc // SIGTERM

	mu      sync.Mutex
	killed  bool
	until   time.Time      // it stands still before that
	asleep  time.Time      // since when its monotonic clock stands still too; zero: it runs
	slept   time.Duration  // what the monotonic clock missed before that
	skew    time.Duration  // of the wall clock
	trouble time.Time      // when something last went wrong for it
	moment  time.Time      // of the last choice
	choices map[string]int // at that moment, by what they are about
}

func newMachine(name string, d dice) *machine {
	return &machine{name: name, dice: d, start: time.Now(), dead: make(chan struct{})}
}

// about returns the random source of a choice of this machine. It depends on the functions that lead to the choice, too, and choices
// about the same thing at the same moment differ: goroutines of a process that wake at the same moment run in a random order.
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

// kill ends the process where it stands.
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

// suspend stops the machine and its monotonic clock.
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

// freeze stops the process (SIGSTOP); all clocks run on.
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

// setSkew sets the wall clock wrong.
func (m *machine) setSkew(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skew = d
	m.trouble = later(m.trouble, time.Now())
}

// hurt notes that something that is no fault of the process went wrong for it.
func (m *machine) hurt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble = later(m.trouble, time.Now())
}

// hurtSince reports whether anything went wrong since t.
func (m *machine) hurtSince(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.killed || !m.trouble.Before(t)
}

// pass waits while the machine stands still, and reports whether it did; errDead when the process is dead.
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

// wait lets d pass, at least as long as the machine stands still.
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

// Read reads this machine's clocks.
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

// Sleep waits.
func (m *machine) Sleep(ctx context.Context, d time.Duration) error {
	return m.wait(ctx, between(m.about("sleep", d), max(d, 0), max(d, 0)))
}

// jitter is a random number in [0,1) for pauses of bulk requests.
func (m *machine) jitter() float64 { return m.about("jitter").Float64() }
