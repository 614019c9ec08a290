package phase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// ExistingKey is the key of a session's identity for the treatment of documents whose ids exist on the target. It is set once a treatment
// was chosen or documents are about to be sent.
const ExistingKey = "existing-documents"

// checkHeld counts the documents of the target indices before this session writes anything, once per process. It returns a fault.ErrConfig
// if they have documents and no treatment of existing documents was chosen. Indices with an entry are not counted: their documents may be
// from this session.
func (s *Session) checkHeld(ctx context.Context, plan *plan.Plan) error {
	if s.Counts == nil || s.held != nil {
		return nil
	}
	planned := map[string]bool{}
	entries, err := s.Entries(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		planned[e.Name] = true
	}
	var names []string
	for _, x := range plan.Indices {
		if !planned[x.Name] && !x.Entry.Create && !x.Unchanged {
			names = append(names, x.Entry.Naming.Targets()...)
		}
	}
	slices.Sort(names)
	held, before, err := s.countHeld(ctx, slices.Compact(names))
	if err != nil {
		return err
	}
	foreign, err := s.foreign(ctx, held)
	if err != nil {
		return err
	}
	if s.Phases.Has(PhaseDocuments) && s.Existing == "" && len(foreign) > 0 {
		return engine.HeldError(foreign, engine.SnapshotHas)
	}
	for _, name := range slices.Sorted(maps.Keys(foreign)) {
		s.Log.WarnContext(ctx, "the target has documents in an index already", "index", name, "documents", held[name], "existing_documents", s.Existing)
	}
	if s.Existing == bulk.Newer && len(held) > 0 {
		s.Log.WarnContext(ctx, "version numbers are compared, not times: an index that was loaded without the numbers of the source counts its own, and so does a document that was deleted and made again")
	}
	s.held, s.before = held, before
	return nil
}

// foreign returns the target indices of held that no former round has filled.
func (s *Session) foreign(ctx context.Context, held map[string]int64) (map[string]int64, error) {
	if s.Root == nil || len(held) == 0 {
		return held, nil
	}
	filled, err := session.EntriesOf(s.Root).Targets(ctx, slices.Collect(maps.Keys(held))...)
	if err != nil {
		return nil, err
	}
	foreign := maps.Clone(held)
	maps.DeleteFunc(foreign, func(name string, _ int64) bool { return filled[name] != "" })
	return foreign, nil
}

// countHeld returns the number of documents of target indices that have any, and the number of operations they have executed, if known.
func (s *Session) countHeld(ctx context.Context, names []string) (held, before map[string]int64, err error) {
	held, before = map[string]int64{}, map[string]int64{}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(arrival.AtOnce)
	for _, name := range names {
		g.Go(func() error {
			n, there, err := engine.CountHeld(ctx, s.Counts, name, s.Log)
			if err != nil || !there {
				return err
			}
			did, err := s.Counts.Operations(ctx, name)
			if errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
				return fmt.Errorf("operations on %s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if n > 0 {
				held[name] = n
			}
			if err == nil {
				before[name] = did.Executed
			}
			return nil
		})
	}
	return held, before, g.Wait()
}

// noteHeld records in a new entry what its target indices held before the session.
func (s *Session) noteHeld(e *plan.Entry) {
	for _, name := range e.Naming.Targets() {
		before, known := s.before[name]
		switch n := s.held[name]; {
		case known && before == 0 && n == 0:
			e.Empty = append(e.Empty, name)
		case known:
			if e.Before == nil {
				e.Before = map[string]int64{}
			}
			e.Before[name] = before
		}
		if n := s.held[name]; n > 0 {
			if e.Held == nil {
				e.Held = map[string]int64{}
			}
			e.Held[name], e.HeldChosen = n, s.Existing != ""
		}
	}
}

// takeExisting adopts the recorded treatment of existing documents unless this process has its own.
func (s *Session) takeExisting(recorded string) {
	if s.Existing != "" || recorded == "" {
		return
	}
	s.Existing = bulk.Existing(recorded)
	if s.Runner != nil {
		s.Runner.Bulk.Existing = s.Existing
	}
}

// bindExisting records the treatment of existing documents before any document is sent. Later processes with another treatment get a
// *session.ConfigMismatch.
func (s *Session) bindExisting(ctx context.Context) error {
	if s.Counts == nil {
		return nil
	}
	return session.IdentityOf(s.Coordinator).Bind(ctx, map[string]string{ExistingKey: string(cmp.Or(s.Existing, bulk.Overwrite))})
}

// checkChosen returns a fault.ErrConfig if target indices held documents when a run that sent none planned them, and no treatment of
// existing documents has been chosen since.
func (s *Session) checkChosen(entries []session.IndexEntry) error {
	if s.Existing != "" || s.Root != nil { // in a round checkHeld has refused documents of other clients
		return nil
	}
	held := map[string]int64{}
	for _, e := range entries {
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			return err
		}
		if !entry.HeldChosen {
			maps.Copy(held, entry.Held)
		}
	}
	if len(held) > 0 {
		return engine.HeldError(held, engine.SnapshotHas)
	}
	return nil
}
