package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

const (
	setupLock = "import/setup"
	// lookInterval is the minimum interval between two readings of the account of all processes.
	lookInterval = 5 * time.Second
	// releaseTimeout limits the write that releases an item.
	releaseTimeout = 10 * time.Second
)

// idle is the back-off of a worker that found no item. Half of each pause is random, so that workers do not query at the same time.
var idle = retry.Policy{First: 500 * time.Millisecond, Max: 10 * time.Second, Jitter: retry.Half}

// outage returns a retry.Outage with a limit. Errors are temporary if the other side is unavailable, or if another process
// was first.
func (m *Import) outage(limit time.Duration) *retry.Outage {
	return &retry.Outage{Limit: limit, Now: func() time.Duration { return m.Clock.Read().Mono }, Passes: func(err error) bool {
		return errors.Is(err, fault.ErrUnavailable) || errors.Is(err, cms.ErrConflict)
	}}
}

// retry calls f until it ends without an error, or with a permanent error.
func (m *Import) retry(ctx context.Context, f func(context.Context) error) error {
	return m.outage(m.Unavailable).Do(ctx, idle.First, m.Clock.Sleep, f)
}

// join binds the session to this import, creates its items unless they exist, and reads its progress. It retries until the
// store answers.
func (m *Import) join(ctx context.Context) error {
	return m.retry(ctx, func(ctx context.Context) error {
		if err := m.open(ctx); err != nil {
			return err
		}
		if err := m.bind(ctx); err != nil {
			return err
		}
		if err := m.setup(ctx); err != nil {
			return err
		}
		return m.resume(ctx)
	})
}

// resume reads the progress of the import. It continues an ended import with reopened items.
func (m *Import) resume(ctx context.Context) error {
	a, err := readAccount(ctx, m.items)
	if err != nil {
		return err
	}
	if m.Ledger != nil && a.ended && !a.Complete {
		if err := m.Ledger.Unseal(ctx); err != nil {
			return err
		}
		m.unsealed = true
	}
	if a.Complete && !a.lacks() {
		if err := m.lookForIndices(ctx, a.sent.Indexed); err != nil {
			return err
		}
	}
	if m.show(a); a.Complete && a.lacks() { // it may have been repaired
		return m.conclude(ctx)
	}
	return nil
}

// lookForIndices reports the indices of a complete import that the target no longer has. sent is the number of indexed documents.
func (m *Import) lookForIndices(ctx context.Context, sent int64) error {
	if m.Missing == nil {
		return nil
	}
	names, err := m.Missing(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	m.vanished = &progress.Arrival{Gone: true, Expected: sent, Problem: fmt.Sprintf("the target no longer has %s, to which this import sent documents: a new session (--session-name) sends them again", strings.Join(names, ", "))}
	m.Log.ErrorContext(ctx, "indices of the import are gone", "indices", names)
	return nil
}

func (m *Import) open(ctx context.Context) error {
	if m.items != nil {
		return nil
	}
	store, err := m.Store.OfKind(ctx, Kind)
	if err != nil {
		return err
	}
	m.items = cms.New(cms.Config{
		Store: store, Kind: Kind, Clock: m.Clock, Creator: m.Token, InitialLease: m.Lease, MaxAttempts: m.MaxAttempts, SkewTolerance: m.SkewTolerance,
		SetupTask: encode(Task{Version: taskVersion, Kind: Kind, Part: partSize(m.files, m.Window)}),
	})
	return nil
}

// setup creates the items of the session, in one process at a time: it compares the files with the manifests, divides them into
// parts, and creates the first item of each.
func (m *Import) setup(ctx context.Context) error {
	locks := &primitive.Locks{Store: m.items.Store(), Clock: m.Clock}
	for {
		if done, err := m.items.Seeded(ctx); err != nil || done {
			return err
		}
		lock, err := locks.Try(ctx, setupLock, m.Lease)
		var held *primitive.Held
		if errors.As(err, &held) {
			m.Log.Info("another process prepares the import", "until", held.Until)
			if err := m.Clock.Sleep(ctx, 2*idle.Pause(1)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		err = lock.Run(ctx, m.seed)
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel() //nolint:revive // the function returns here
		return errors.Join(err, lock.Unlock(rctx))
	}
}

// seed performs the setup under its lock. Each step may be repeated.
func (m *Import) seed(ctx context.Context) error {
	if err := m.ask(ctx); err != nil {
		return err
	}
	if err := m.checkDigests(ctx); err != nil {
		return err
	}
	if err := m.createDescribed(ctx); err != nil {
		return err
	}
	return m.items.SeedOnce(ctx, m.Token, func(ctx context.Context) error {
		roots, err := m.roots(ctx)
		if err == nil {
			_, err = m.items.SeedRoots(ctx, roots)
		}
		return err
	}, nil)
}

// createDescribed creates the described indices that the target lacks.
func (m *Import) createDescribed(ctx context.Context) error {
	if m.Described == nil {
		return nil
	}
	names, err := m.Described(ctx)
	for _, name := range names {
		if err == nil && !LeftOut([]byte(name), m.IncludeSystem) {
			err = m.Indices.Create(ctx, name)
		}
	}
	return err
}

// ask reads the names of all indices from the files and passes them to AskAll.
func (m *Import) ask(ctx context.Context) error {
	if m.AskAll == nil {
		return nil
	}
	c := Comparison{Source: m.Source, Types: m.Types, IncludeSystem: m.IncludeSystem, MaxDocument: m.MaxSource, Memory: m.Memory, Frames: m.Frames}
	hashes := m.exports.hashes()
	all := make([][]string, len(m.files))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(m.Workers)
	for i, f := range m.files {
		g.Go(func() (err error) {
			_, exported := hashes[f.name]
			if all[i], err = c.indices(gctx, f, exported); errors.Is(err, fault.ErrCorrupt) {
				return nil // the part with the damage ends as given up
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("names of the indices: %w", err)
	}
	names := slices.Concat(all...)
	slices.Sort(names)
	return m.AskAll(ctx, slices.Compact(names))
}

// roots returns the first item of each part, by the part size of the setup, which may differ from Window.
func (m *Import) roots(ctx context.Context) (iter.Seq[cms.Root], error) {
	text, err := m.items.SetupTask(ctx)
	if errors.Is(err, cms.ErrNotFound) {
		return nil, fmt.Errorf("the items of the import are gone: %w", cms.ErrStoreGone)
	}
	if err != nil {
		return nil, err
	}
	setup, err := decodeTask(text)
	if err == nil && setup.Part <= 0 {
		err = fmt.Errorf("setup of the import: parts of %d bytes: %w", setup.Part, fault.ErrCorrupt)
	}
	return parts(m.files, setup.Part), err
}

// look reads the progress of the import.
func (m *Import) look(ctx context.Context) error {
	a, err := readAccount(ctx, m.items)
	if err != nil {
		return err
	}
	m.show(a)
	return nil
}

// show sets the result of Seen to the status of an account that was just read.
func (m *Import) show(a Account) {
	if m.vanished != nil {
		a.Arrival = m.vanished
	}
	a.Problems = append([]Problem{}, a.Problems...)
	m.seen.fleet.Store(&a.Status)
	m.looked = m.Clock.Read().Boot
}

// work processes items until the import is complete, ctx is done, or a permanent error occurs.
func (m *Import) work(ctx context.Context, slot int) error {
	holder := m.Token
	if slot > 0 {
		holder += "-" + strconv.Itoa(slot)
	}
	outage, target := m.outage(m.Unavailable), m.outage(m.runner.Bulk.StallTimeout)
	for {
		lease, err := m.next(ctx, holder, outage)
		if lease == nil {
			return err
		}
		started := target.Now()
		outcome, err := m.serve(ctx, lease)
		switch {
		case ctx.Err() != nil:
		case outcome == engine.Released && err != nil:
			return err
		case outcome == engine.Released || outcome == engine.Lost: // without an end, in a lease that may be shorter than its patience
			if at, moved := lease.MovedAt(); moved {
				target.OverAt(at)
				started = at
			}
			if err := target.Check(started, errNoProgress); err != nil {
				return err
			}
		default:
			target.Over()
		}
	}
}

// errNoProgress means that leases ended without any document that arrived.
var errNoProgress = fmt.Errorf("items were released without progress: %w", fault.ErrUnavailable)

// next blocks until it has leased an item, and returns nil when the import is complete or ctx is done. One worker of a process
// searches at a time.
func (m *Import) next(ctx context.Context, holder string, outage *retry.Outage) (*cms.Lease, error) {
	select {
	case m.claiming <- struct{}{}:
		defer func() { <-m.claiming }()
	case <-ctx.Done():
	}
	for n := 1; ctx.Err() == nil && !m.Seen().Complete; n++ {
		started := outage.Now()
		lease, err := m.items.AcquireNext(ctx, holder, nil)
		if err == nil && !m.Solo.Enter(lease.Alone()) {
			err = errors.Join(lease.Release(ctx, cms.CausePause), &cms.NoneAvailable{Holder: holder, Open: 1})
			n = 1
		}
		if err == nil {
			return lease, nil
		}
		var none *cms.NoneAvailable
		switch {
		case errors.Is(err, cms.ErrAllDone):
			err = m.conclude(ctx)
		case errors.As(err, &none):
			if err = nil; m.Clock.Read().Boot-m.looked > lookInterval {
				err = m.look(ctx)
			}
		}
		if ctx.Err() != nil || m.Seen().Complete {
			break
		}
		if err := outage.Check(started, err); err != nil {
			return nil, err
		}
		if m.Clock.Sleep(ctx, idle.Pause(n)) != nil {
			break
		}
	}
	return nil, nil
}

// serve processes one item until its lease ends.
func (m *Import) serve(ctx context.Context, lease *cms.Lease) (engine.Outcome, error) {
	defer m.Solo.Leave()
	task, err := decodeTask(lease.Item.Task)
	if err != nil { // a newer version may know what to do with it
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		return engine.Released, errors.Join(err, lease.Release(rctx, cms.CausePause))
	}
	m.Tell(Hold{Window: lease.Item.ID, Holder: lease.Holder, File: task.File, Number: task.Number, Left: max(lease.UntilEnd(), time.Millisecond)})
	defer m.Tell(Hold{})
	outcome, err := m.runner.Run(ctx, lease, &part{m, task}, func(context.Context, time.Duration) error { return nil })
	if outcome == engine.Completed || outcome == engine.HandedOff || outcome == engine.Failed {
		m.seen.windows.Add(1)
	}
	return outcome, err
}

// conclude audits the chains of all items when none is open, and records the end of the import if they cover every
// file from its first byte to its last.
func (m *Import) conclude(ctx context.Context) error {
	roots, err := m.roots(ctx)
	if err != nil {
		return err
	}
	report, err := m.items.AuditTasks(ctx, roots)
	if err != nil || !report.Clean() {
		return err
	}
	a, err := readAccount(ctx, m.items)
	if err != nil {
		return err
	}
	if first := !a.ended || m.unsealed; first || a.lacks() {
		if err := m.end(ctx, &a, first); err != nil {
			return err
		}
	}
	a.Complete = true
	m.show(a)
	return nil
}

// end compares the target with the account, sets the aliases that wait, seals the created indices if first, and records the end of the
// import.
func (m *Import) end(ctx context.Context, a *Account, first bool) error {
	own, err := m.count(ctx, a)
	if err != nil {
		return err
	}
	if m.Aliases != nil && a.GivenUp == 0 && (a.Arrival == nil || a.Arrival.Problem == "") {
		if err := m.Aliases(ctx); err != nil {
			return err
		}
	}
	if m.Ledger != nil && first {
		if err := m.Ledger.Seal(ctx, own...); err != nil {
			return err
		}
	}
	body, err := json.Marshal(end{a.Arrival})
	if err != nil {
		return fmt.Errorf("end of the import: %w", err)
	}
	return m.items.Leases().Put(ctx, cms.Record{ID: endID, Kind: endKind, Body: body})
}

// count compares the documents of the target with the account, and adds the result to it. It returns the operations of the
// session's documents.
func (m *Import) count(ctx context.Context, a *Account) ([]rollback.Own, error) {
	if m.Arrived == nil {
		return nil, nil
	}
	is, own, err := m.Arrived(ctx, a.sent)
	if err != nil {
		return nil, fmt.Errorf("documents on the target: %w", err)
	}
	if is.Problem != "" {
		m.Log.ErrorContext(ctx, "documents are not on the target", "expected", is.Expected, "found", is.Found, "problem", is.Problem)
	}
	a.Arrival = &is
	return own, nil
}
