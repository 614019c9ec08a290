package phase

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// noteFormer adds to a new entry which target indices hold the documents of an index that was recreated since the former snapshot: only
// those are removed, not what a worker has created instead.
func (s *Session) noteFormer(ctx context.Context, e *plan.Entry) error {
	if s.Root == nil || e.Since == nil || !e.Since.Another {
		return nil
	}
	e.Former = map[string]string{}
	for _, name := range e.Naming.Targets() {
		uuid, err := session.EntriesOf(s.Root).Target(ctx, name)
		if err != nil {
			return err
		}
		e.Former[name] = uuid
	}
	return nil
}

// discardFormer removes the target indices of an index that was recreated on the source since the former snapshot, so that they are
// created with its new mapping. Those that the session did not create, or that other clients changed, stay (fault.ErrConfig for the latter).
func (s *Session) discardFormer(ctx context.Context, entry plan.Entry) error {
	if entry.Since == nil || !entry.Since.Another || s.Ledger == nil { // by the snapshots: Former is input
		return nil
	}
	for _, name := range entry.Naming.Targets() {
		if entry.Former[name] == "" {
			continue
		}
		discarded, err := s.Ledger.Discard(ctx, name, entry.Former[name])
		if err != nil {
			return fmt.Errorf("index %s was made anew on the source, and its former documents are in the target index %s, which cannot be replaced: %w", entry.Locator.IndexName, name, err)
		}
		if discarded {
			s.Log.InfoContext(ctx, "the index was made anew on the source: its former target index is removed", "index", entry.Locator.IndexName, "target", name)
		}
	}
	return nil
}

// followsOn returns a fault.ErrConfig when a target index that former rounds have filled is gone. Where indices are going to be created,
// it forgets which ones had their names before.
func (s *Session) followsOn(ctx context.Context, entry plan.Entry, absent []string) error {
	if s.Root == nil || len(absent) == 0 {
		return nil
	}
	if entry.Since != nil && !entry.Since.Another {
		return fmt.Errorf("the target index %s, which former rounds have filled, is gone, and this round brings only what changed: start a new session (--session-name): %w", absent[0], fault.ErrConfig)
	}
	for _, name := range absent {
		if err := session.EntriesOf(s.Root).ForgetTarget(ctx, name); err != nil {
			return err
		}
		s.known.mu.Lock()
		delete(s.known.claims, name)
		s.known.mu.Unlock()
	}
	return nil
}
