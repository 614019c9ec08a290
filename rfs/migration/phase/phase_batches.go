package phase

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/engine"
)

// makeIndices creates target indices until no entry is left. A large number of entries is divided into batches, so that each worker reads
// only some of them. listed are the entries if this process has just created them, else nil.
func (s *Session) makeIndices(ctx context.Context, phase session.Phase, listed []string) (worked bool, err error) {
	r, err := DecodeIndices(phase.Body)
	if err != nil {
		return false, err
	}
	if r.Indices > session.BatchSize {
		worked, err = s.makeBatches(ctx)
	} else {
		worked, err = s.makeFew(ctx, listed)
	}
	if err != nil || worked && r.Indices > session.BatchSize {
		return worked, err
	}
	_, err = session.PhasesOf(s.Coordinator).Move(ctx, session.IndexPhase, session.PhaseInProgress, session.PhaseCompleted, nil)
	return worked, err
}

// makeFew creates the target indices of the named entries; nil: of all. Several workers may process the same entry: the index is created once, and the first
// result recorded is final.
func (s *Session) makeFew(ctx context.Context, names []string) (worked bool, err error) {
	if names == nil {
		entries, err := s.Entries(ctx)
		if err != nil {
			return false, err
		}
		for _, e := range entries {
			if e.State == session.PhaseNotStarted {
				names = append(names, e.Name)
			}
		}
	}
	return s.makeNamed(ctx, names)
}

// heldBatches is the number of batches held by others after which a worker stops searching and waits.
const heldBatches = 2

// makeBatches creates the target indices of one free batch. It returns false and nil if every batch is done, and a *cms.NoneAvailable if
// other workers hold the remaining ones.
func (s *Session) makeBatches(ctx context.Context) (worked bool, err error) {
	batches, err := session.BatchesOf(s.Coordinator).All(ctx)
	if err != nil {
		return false, err
	}
	var busy *cms.NoneAvailable
	held := 0
	for _, n := range rand.Perm(len(batches)) {
		lease, err := session.BatchesOf(s.Coordinator).Lease(ctx, n, s.Holder)
		switch {
		case errors.Is(err, cms.ErrMoved):
			continue
		case errors.As(err, &busy):
			if held++; held == heldBatches {
				return false, busy
			}
			continue
		case err != nil:
			return false, err
		}
		return true, s.makeBatch(ctx, lease, batches[n])
	}
	if busy != nil {
		return false, busy
	}
	return false, nil
}

// makeBatch creates the target indices of a batch under its lease, and releases the lease.
func (s *Session) makeBatch(ctx context.Context, lease *cms.RecordLease, names []string) error {
	err := lease.Run(ctx, func(ctx context.Context) error {
		_, err := s.makeNamed(ctx, names)
		return err
	})
	if errors.Is(err, fault.ErrLeaseLost) {
		s.Log.WarnContext(ctx, "lease of a batch of the indices lost", "error", err)
		return nil // the new holder continues
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.ShutdownTimeout)
	defer cancel()
	return errors.Join(err, session.BatchesOf(s.Coordinator).End(back, lease, err == nil))
}

// indicesAtOnce is the number of entries whose target indices a process creates at the same time, or whose aliases and policies it sets. The
// cluster manager applies one change after the other, but the requests before and after it, and the start of shards, take most of the time.
const indicesAtOnce = 4

// makeNamed creates the target indices of entries in random order until each entry is COMPLETED or FAILED.
func (s *Session) makeNamed(ctx context.Context, names []string) (worked bool, err error) {
	for len(names) > 0 {
		rand.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
		did, left, pause, err := s.makeOnce(ctx, names)
		worked = worked || did
		if err != nil {
			return worked, err
		}
		if names = left; pause > 0 {
			if err := s.Runner.Clock.Sleep(ctx, pause); err != nil {
				return worked, err
			}
		}
	}
	return worked, nil
}

// makeOnce attempts each of the named entries once, as atOnce does, and returns the names to attempt again after a pause.
func (s *Session) makeOnce(ctx context.Context, names []string) (worked bool, left []string, pause time.Duration, err error) {
	var mu sync.Mutex
	err = atOnce(ctx, slices.Values(names), func(name string) error {
		did, again, err := s.makeIndex(ctx, name)
		mu.Lock()
		defer mu.Unlock()
		worked, pause = worked || did, max(pause, again)
		if again > 0 {
			left = append(left, name)
		}
		return err
	})
	return worked, left, pause, err
}

// atOnce calls f for names, indicesAtOnce at the same time. After an error, or once ctx is done, it starts no further call, and waits for
// those in progress.
func atOnce(ctx context.Context, names iter.Seq[string], f func(name string) error) error {
	g, failed := errgroup.WithContext(ctx)
	g.SetLimit(indicesAtOnce)
	for name := range names {
		g.Go(func() error {
			if failed.Err() != nil {
				return ctx.Err()
			}
			return f(name)
		})
	}
	return g.Wait()
}
