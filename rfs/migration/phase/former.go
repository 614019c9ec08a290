package phase

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// noteFormer records in a new entry which target indices hold documents of a former index of the same name, which was recreated since the
// former snapshot or vanished in an earlier round. The recorded UUID ensures that an index created in its place is not removed.
func (s *Session) noteFormer(ctx context.Context, e *plan.Entry) error {
	if s.Root == nil || e.Since != nil && !e.Since.Another {
		return nil
	}
	for _, name := range e.Naming.Targets() {
		uuid, err := session.EntriesOf(s.Root).Target(ctx, name)
		if err != nil {
			return err
		}
		if uuid == "" {
			continue
		}
		if e.Former == nil {
			e.Former = map[string]string{}
		}
		e.Former[name] = uuid
	}
	return nil
}

// discardFormer removes the target indices of a former index of the same name, so that they are created with the mapping of the new index.
// Target indices that the session did not create stay; the round deletes the documents of an index in the former snapshot. It returns a
// fault.ErrConfig if other clients changed them, or if it is unknown which of their documents are former ones.
func (s *Session) discardFormer(ctx context.Context, entry plan.Entry) error {
	if s.Root == nil || s.Ledger == nil || entry.Since != nil && !entry.Since.Another { // decided by the snapshots, because Former is not trusted
		return nil
	}
	index := entry.Locator.IndexName
	for _, name := range entry.Naming.Targets() {
		uuid := entry.Former[name]
		if uuid == "" {
			continue
		}
		discarded, err := s.discard(ctx, name, uuid)
		if err != nil {
			return fmt.Errorf("index %s is sent whole, and its former documents are in the target index %s, which cannot be replaced: %w", index, name, err)
		}
		if discarded {
			s.Log.InfoContext(ctx, "the index is sent whole: its former target index is removed", "index", index, "target", name)
			continue
		}
		if entry.Since != nil {
			continue
		}
		is, err := s.targetUUID(ctx, entry, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("target index %s: %w", name, err)
		}
		if err == nil && is == uuid {
			return fmt.Errorf("index %s is sent whole, and its former documents are in the target index %s, which the session did not create and cannot replace: delete that target index, and run the same command again: %w", index, name, fault.ErrConfig)
		}
	}
	return nil
}

// discard removes a target index of the session and reports whether it did. It keeps all indices if rules may send documents of several
// indices to one.
func (s *Session) discard(ctx context.Context, target, uuid string) (bool, error) {
	if s.Shards.Merges {
		return false, nil
	}
	return s.Ledger.Discard(ctx, target, uuid)
}

// deleteVanished removes the session's target indices of indices that no longer exist on the source, except those that an undo would keep.
func (s *Session) deleteVanished(ctx context.Context, p *plan.Plan) error {
	if !s.DeleteVanished || s.Root == nil || s.Ledger == nil {
		return nil
	}
	for _, x := range p.Vanished {
		names, err := s.formerTargets(ctx, x.Entry)
		if err != nil {
			return err
		}
		for name, uuid := range names {
			discarded, err := s.discard(ctx, name, uuid)
			switch {
			case err == nil && !discarded:
				err = errors.New("the session did not create it, or documents of other indices are in it")
				fallthrough
			case errors.Is(err, fault.ErrConfig):
				s.Log.WarnContext(ctx, "the index has vanished from the source; its target index stays", "index", x.Name, "target", name, "reason", fault.Text(err))
				continue
			case err != nil:
				return fmt.Errorf("target index %s of the vanished index %s: %w", name, x.Name, err)
			}
			if err := session.EntriesOf(s.Root).ForgetTarget(ctx, name); err != nil {
				return err
			}
			s.Log.InfoContext(ctx, "the index has vanished from the source: its target index is deleted", "index", x.Name, "target", name)
		}
	}
	return nil
}

// nameLeft logs the target indices of former rounds that a round which starts over does not replace.
func (s *Session) nameLeft(ctx context.Context, p *plan.Plan) error {
	if s.Request == nil || s.Request.Follow == nil || !s.Request.Follow.Whole {
		return nil
	}
	filled, err := session.EntriesOf(s.Root).Targets(ctx)
	if left := p.Left(filled); err == nil && len(left) > 0 {
		s.Log.WarnContext(ctx, "target indices of former rounds stay: their indices are not followed any more, or the source has deleted them since", "targets", fault.Names(left, mostDiffers))
	}
	return err
}

// formerTargets returns the target indices of an entry that former rounds have filled, with their UUIDs. A backing index of a data stream
// may have lost its leading dot.
func (s *Session) formerTargets(ctx context.Context, e plan.Entry) (map[string]string, error) {
	names := e.Naming.Targets()
	if e.Stream != nil {
		names = append(slices.Clone(names), metadata.BackingName(e.Naming.Index, true))
	}
	filled := map[string]string{}
	for _, name := range names {
		uuid, err := session.EntriesOf(s.Root).Target(ctx, name)
		if err != nil {
			return nil, err
		}
		if uuid != "" {
			filled[name] = uuid
		}
	}
	return filled, nil
}

// leaveStreams removes the alias that replaces a data stream from the session's target indices of backing indices that no longer exist on
// the source.
func (s *Session) leaveStreams(ctx context.Context) error {
	if s.Root == nil || s.Ledger == nil {
		return nil
	}
	p, err := s.plan(ctx)
	if err != nil {
		return err
	}
	for _, x := range p.Vanished {
		if x.Entry.Stream == nil {
			continue
		}
		names, err := s.formerTargets(ctx, x.Entry)
		if err != nil {
			return err
		}
		for name := range names {
			ours, err := s.Ledger.Owns(ctx, name)
			if err == nil && ours {
				err = s.Indices.RemoveAliases(ctx, name, []string{x.Entry.Stream.Alias})
			}
			if err != nil {
				return fmt.Errorf("alias of the vanished index %s: %w", x.Name, err)
			}
		}
	}
	return nil
}

// settingsSince applies settings that the source has changed since the former snapshot to the target indices that the session created. It
// returns a text for each setting that stays as it is.
func (s *Session) settingsSince(ctx context.Context, e plan.Entry, source *snapshot.Index) (left []string, err error) {
	if e.Since == nil || e.Since.Another || e.Since.Set || e.Create || s.Ledger == nil {
		return nil, nil
	}
	var targets []string
	for _, name := range e.Naming.Targets() {
		ours, err := s.Ledger.Owns(ctx, name)
		if err != nil {
			return nil, err
		}
		if ours {
			targets = append(targets, name)
		}
	}
	if len(targets) == 0 {
		return nil, nil
	}
	former, err := e.Since.Locator.Index(ctx, s.Shards.Repo)
	if err != nil {
		return nil, fmt.Errorf("index %s of the former snapshot: %w", e.Locator.IndexName, err)
	}
	return s.Indices.ChangeSettings(ctx, plan.Index{Name: e.Locator.IndexName, Source: source, Entry: e}, former, targets)
}

// followsOn returns a fault.ErrConfig if a target index filled by former rounds is missing. If the missing indices are going to be created,
// it forgets the recorded UUIDs of their names.
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
