package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/migration/summary"
)

// Migration runs all phases to their end in one process, and works on items in its slots.
type Migration struct {
	*phase.Session
	Slots int // 0: other processes work on the items, and this one waits until none is open
	// Dead are the holders of former processes that are known to be dead. Their leases are released at the start; then Freed, if not nil, is
	// called.
	Dead  []string
	Freed func() error
	// Unavailable is the time for which the store, the target or the repository may be unavailable before the run fails.
	Unavailable time.Duration

	mu     sync.Mutex
	paused map[string]string // index → why
	freed  chan struct{}     // closed and replaced whenever a slot ends a lease

	outage  *retry.Outage // of the store, the target or the repository during the work
	store   *retry.Outage // of the store, while slots acquire leases
	working atomic.Int32  // slots that hold leases, or may get some from a request in progress

	sizes      map[string][]int64 // repository sizes of the shards of an index, in bytes; not changed while slots run
	ahead      *shards.Ahead
	doneBefore bool // the session was complete when this process started
}

// Run performs all phases until no work is left. It returns the summary whenever the coordination store can be read, even with an error,
// unless the session was undone.
func (m *Migration) Run(ctx context.Context) (*summary.Summary, error) {
	m.paused, m.freed, m.sizes = map[string]string{}, make(chan struct{}), map[string][]int64{}
	m.ahead = shards.NewAhead(&m.Shards)
	if m.Solo == nil {
		m.Solo = &engine.Solo{}
	}
	m.outage, m.store = m.newOutage(), m.newOutage()
	err := Interrupted(ctx, m.toTheEnd(ctx))
	if errors.Is(err, session.ErrUndone) {
		return nil, err
	}
	// Return the summary even if the run was interrupted.
	sum, serr := summary.Of(context.WithoutCancel(ctx), m.Session)
	switch {
	case serr != nil && err != nil: // often for the same cause
		m.Log.Warn("no summary", "error", fault.Text(serr))
		return nil, err
	case serr != nil:
		return nil, serr
	}
	for i := range sum.Indices {
		sum.Indices[i].Paused = m.paused[sum.Indices[i].Index]
	}
	if sum.DoneBefore = m.doneBefore && sum.Complete; sum.DoneBefore && err == nil {
		sum.Recount(ctx, m.Counts, m.Log)
	}
	return sum, err
}

// Interrupted replaces an error that only reports the end of ctx (and names the interrupted request) by an error with the cause: the store
// is gone, an operator has paused the work, or the command can be run again to continue. It returns other errors unchanged.
func Interrupted(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	var paused *session.PausedError
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, cms.ErrStoreGone):
		return cause
	case errors.As(cause, &paused):
		return fmt.Errorf("interrupted: %w: %w", paused, ctx.Err())
	}
	return fmt.Errorf("interrupted; run the same command again to continue: %w", ctx.Err())
}

func (m *Migration) toTheEnd(ctx context.Context) error {
	if err := m.Join(ctx); err != nil {
		return err
	}
	if err := m.reclaim(ctx); err != nil {
		return err
	}
	var err error
	if m.doneBefore, err = m.Finished(ctx); err != nil {
		return err
	}
	if err := m.ReopenFailed(ctx); err != nil {
		return err
	}
	if err := m.Through(ctx, m.outage); err != nil || !m.Phases.Has(phase.PhaseDocuments) {
		return err
	}
	if err := m.RetryFailed(ctx); err != nil {
		return err
	}
	if m.sizes, err = m.CheckIndices(ctx, m.insist); err != nil {
		return err
	}
	if err := m.items(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return m.audit(ctx)
}

// items blocks until neither the slots nor other processes have an item left to work on.
func (m *Migration) items(ctx context.Context) error {
	if m.Slots == 0 {
		return m.await(ctx)
	}
	g, gctx := errgroup.WithContext(ctx)
	for n := range m.Slots {
		g.Go(func() error { return m.slot(gctx, n) })
	}
	return g.Wait()
}

// await blocks until other processes have done all items.
func (m *Migration) await(ctx context.Context) error {
	for {
		var open cms.Open
		err := m.insist(ctx, func() (err error) {
			open, err = m.Coordinator.Store().Open(ctx)
			return err
		})
		if err != nil || open.Items == 0 {
			return err
		}
		m.pause(ctx, awaitEvery, nil)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// awaitEvery is the interval at which a process without slots counts the open items.
const awaitEvery = time.Second

// reclaim releases the leases of former processes that are known to be dead.
func (m *Migration) reclaim(ctx context.Context) error {
	for _, dead := range m.Dead {
		m.Log.InfoContext(ctx, "leases of a dead process are freed", "holder", dead)
		if err := session.HeldOf(m.Coordinator).ReleaseDead(ctx, dead, cms.CauseKilled); err != nil {
			return err
		}
	}
	if len(m.Dead) > 0 && m.Freed != nil {
		return m.Freed()
	}
	return nil
}

func (m *Migration) isPaused(index string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, paused := m.paused[index]
	return paused
}

// hints returns the order of acquisitions; nil: any order. It is the session's order, but items of overloaded indices come later, since
// each of them would occupy a slot, and items of paused indices come last.
func (m *Migration) hints() cms.Hints {
	overloaded := m.Runner.Meter.Overloaded()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Order == nil && len(m.paused) == 0 && len(overloaded) == 0 {
		return nil
	}
	rank := func(item cms.Item) int {
		id, err := item.Range()
		switch {
		case err != nil:
			return 0
		case m.isPaused(id.Index):
			return 2
		case overloaded[id.Index]:
			return 1
		}
		return 0
	}
	return func(items []cms.Item) {
		if m.Order != nil {
			m.Order(items)
		}
		slices.SortStableFunc(items, func(a, b cms.Item) int { return rank(a) - rank(b) })
	}
}

// otherWork reports whether an open item belongs to an index that is not paused.
func (m *Migration) otherWork(ctx context.Context) (bool, error) {
	for item, err := range m.Coordinator.Items(ctx) {
		if err != nil {
			return false, fmt.Errorf("list items: %w", err)
		}
		if id, err := item.Range(); err == nil && item.Open() && !m.isPaused(id.Index) {
			return true, nil
		}
	}
	return false, nil
}

func (m *Migration) pauseIndex(index string, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, already := m.paused[index]; !already {
		m.paused[index] = fault.Text(why)
		m.Log.Error("index paused", "index", index, "reason", fault.Text(why))
	}
}

// insist retries an idempotent step while the store or the target is unavailable: a busy target rejects requests for a while (429).
func (m *Migration) insist(ctx context.Context, step func() error) error {
	return m.outage.Do(ctx, time.Second, m.Runner.Clock.Sleep, func(context.Context) error { return step() })
}

func (m *Migration) newOutage() *retry.Outage {
	return &retry.Outage{Limit: m.Unavailable, Now: func() time.Duration { return m.Runner.Clock.Read().Mono }, Begins: func(err error) {
		m.Log.Warn("unavailable; trying again", "error", fault.Text(err), "for_at_most", m.Unavailable)
	}}
}

// wait blocks until a lease may be free, and logs the holder if it is another process.
func (m *Migration) wait(ctx context.Context, none *cms.NoneAvailable, freed <-chan struct{}) {
	if !strings.HasPrefix(none.Holder, m.Holder) {
		m.Log.Info("waiting for the lease of another worker", "holder", none.Holder, "until", none.NextExpiry)
	}
	m.pause(ctx, min(max(time.Until(none.NextExpiry), 200*time.Millisecond), 5*time.Second), freed)
}

func (m *Migration) pause(ctx context.Context, d time.Duration, freed <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-freed:
	}
}

func (m *Migration) freedSignal() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.freed
}

func (m *Migration) signalFreed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.freed)
	m.freed = make(chan struct{})
}

// audit verifies that every chain of items is complete before the run is reported as complete. It creates missing items and works on them.
func (m *Migration) audit(ctx context.Context) error {
	if len(m.paused) > 0 {
		names := make([]string, 0, len(m.paused))
		for n := range m.paused {
			names = append(names, n)
		}
		slices.Sort(names)
		return &PausedError{Indices: names, Why: m.paused[names[0]]}
	}
	for own := true; ; {
		var report cms.AuditReport
		clean := false
		var busy *cms.NoneAvailable
		err := m.insist(ctx, func() (err error) {
			report, clean, err = m.EndDocuments(ctx, own)
			return err
		})
		if errors.As(err, &busy) {
			if err := m.WaitForAudit(ctx, busy); err != nil {
				return err
			}
			own = false
			continue
		}
		if err != nil {
			return err
		}
		own = true
		switch {
		case clean:
			return nil
		case len(report.Repaired) == 0 && report.Open > 0:
			return fmt.Errorf("not complete: %d work items are open and none of them is free or can be found; run the same command again, `rfsctl items list` shows them: %w",
				report.Open, fault.ErrUnavailable)
		}
		m.Log.Warn("the audit found missing items and created them again, or items that are not all seeded", "items", len(report.Repaired))
		again := m.await
		if m.Slots > 0 {
			again = func(ctx context.Context) error { return m.slot(ctx, 0) }
		}
		if err := again(ctx); err != nil {
			return err
		}
	}
}

// PausedError means that indices were left incomplete because the target rejected their documents.
type PausedError struct {
	Indices []string
	Why     string
}

func (e *PausedError) Error() string {
	what := "index " + e.Indices[0] + " is"
	if n := len(e.Indices); n > 1 {
		what = fmt.Sprintf("%d indices (%s) are", n, strings.Join(e.Indices, ", "))
	}
	return fmt.Sprintf("not complete: %s paused: %s; repair the target and run the same command again", what, e.Why)
}
