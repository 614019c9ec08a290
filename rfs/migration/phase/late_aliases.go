package phase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// setLateAliases sets the aliases that were withheld, for indices whose items are all done without failures. It records the result in
// the entry and may be repeated.
func (s *Session) setLateAliases(ctx context.Context) error {
	if s.Indices == nil {
		return nil
	}
	if err := s.leaveStreams(ctx); err != nil {
		return err
	}
	entries, err := s.Entries(ctx)
	if err != nil {
		return err
	}
	waiting := map[string]plan.Entry{}
	for _, e := range entries {
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			return err
		}
		if len(entry.Late)+len(entry.Dropped) > 0 && e.State == session.PhaseCompleted && (entry.Arrival == nil || entry.Arrival.Problem == "") {
			waiting[e.Name] = entry
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	for item, err := range s.Coordinator.Items(ctx) {
		if err != nil {
			return fmt.Errorf("list items: %w", err)
		}
		if id, err := item.Range(); err == nil && (item.Open() || item.FailedItem()) {
			delete(waiting, id.Index)
		}
	}
	if err := eachIndex(ctx, waiting, s.dropAliases); err != nil { // for all indices, before a moved alias is set on another one
		return err
	}
	if s.Root != nil { // for all indices, before another one becomes the write index of an alias
		if err := eachIndex(ctx, waiting, s.endWriting); err != nil {
			return err
		}
	}
	return eachIndex(ctx, waiting, s.setAliases)
}

// eachIndex calls f for the entries of indices as atOnce does.
func eachIndex(ctx context.Context, entries map[string]plan.Entry, f func(ctx context.Context, index string, e plan.Entry) error) error {
	return atOnce(ctx, maps.Keys(entries), func(index string) error { return f(ctx, index, entries[index]) })
}

// checkAliases returns an error if the aliases or target indices of an entry differ from the derived ones, since entries are not trusted.
func (s *Session) checkAliases(ctx context.Context, index string, entry plan.Entry) error {
	if err := s.checkEntry(ctx, index, entry); err != nil {
		return err
	}
	return s.checkLate(ctx, index, entry)
}

// dropAliases removes the aliases that an index has lost since the former snapshot.
func (s *Session) dropAliases(ctx context.Context, index string, entry plan.Entry) error {
	if len(entry.Dropped) == 0 {
		return nil
	}
	if err := s.checkAliases(ctx, index, entry); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(entry.Dropped)) {
		if err := s.Indices.RemoveAliases(ctx, name, entry.Dropped[name]); err != nil {
			return fmt.Errorf("aliases of %s: %w", name, err)
		}
		s.Log.InfoContext(ctx, "aliases removed, as on the source", "index", name, "aliases", entry.Dropped[name])
	}
	return nil
}

// endWriting sets the aliases in a round's entry for which the index is not the write index. Rejections are left to setAliases.
func (s *Session) endWriting(ctx context.Context, index string, entry plan.Entry) error {
	if err := s.checkAliases(ctx, index, entry); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(entry.Late)) {
		all := creation.AliasNames(entry.Late[name])
		maps.DeleteFunc(all, func(_ string, alias json.RawMessage) bool {
			var is struct {
				Writes *bool `json:"is_write_index"`
			}
			return json.Unmarshal(alias, &is) != nil || is.Writes == nil || *is.Writes
		})
		if len(all) == 0 {
			continue
		}
		if s.Ledger != nil {
			if err := s.Ledger.IntendAliases(ctx, name, entry.Late[name]); err != nil {
				return err
			}
		}
		body, err := json.Marshal(all)
		if err != nil {
			return fmt.Errorf("aliases of %s: %w", name, err)
		}
		if err := s.Indices.SetAliases(ctx, name, body); err != nil && !errors.Is(err, fault.ErrRejected) {
			return fmt.Errorf("aliases of %s: %w", name, err)
		}
	}
	return nil
}

// setAliases sets the withheld aliases of an entry and records rejected ones, which the next run retries.
func (s *Session) setAliases(ctx context.Context, index string, entry plan.Entry) error {
	if err := s.checkAliases(ctx, index, entry); err != nil {
		return err
	}
	var refused []progress.RefusedAlias
	for _, name := range slices.Sorted(maps.Keys(entry.Late)) {
		aliases := entry.Late[name]
		if s.Ledger != nil {
			if err := s.Ledger.IntendAliases(ctx, name, aliases); err != nil {
				return err
			}
		}
		some, err := creation.SetEach(ctx, s.Indices, name, aliases)
		if err != nil {
			return fmt.Errorf("aliases of %s: %w", name, err)
		}
		for _, alias := range slices.Sorted(maps.Keys(some)) {
			refused = append(refused, progress.RefusedAlias{Index: name, Alias: alias, Reason: some[alias]})
		}
	}
	for _, r := range refused {
		s.Log.ErrorContext(ctx, "alias refused", "index", r.Index, "alias", r.Alias, "reason", r.Reason)
		if _, err := s.Coordinator.Event(ctx, fmt.Sprintf("alias %s of %s", r.Alias, r.Index), "refused", r.Reason); err != nil {
			return err
		}
	}
	return s.note(ctx, index, func(e *plan.Entry) { e.Late, e.Dropped, e.RefusedAliases = left(entry.Late, refused), nil, refused })
}

// aliasesSince records in an entry the aliases that its index has gained and lost since the former snapshot, for target indices that the
// session created.
func (s *Session) aliasesSince(ctx context.Context, e plan.Entry, source *snapshot.Index) (plan.Entry, error) {
	if e.Since == nil || e.Since.Another || e.Since.Aliased && e.Stream == nil || s.Ledger == nil {
		return e, nil
	}
	is, lost, err := s.changedAliases(ctx, e, source)
	if err != nil {
		return e, err
	}
	e.Late, e.Dropped = map[string]json.RawMessage{}, map[string][]string{}
	for name, all := range is {
		ours, err := s.Ledger.Owns(ctx, name)
		if err != nil {
			return e, err
		}
		if ours && len(all) > 0 {
			e.Late[name] = all
		}
		if ours && len(lost[name]) > 0 {
			e.Dropped[name] = lost[name]
		}
	}
	return e, nil
}

// changedAliases returns the current aliases of an entry's target indices, and the names of aliases that only the former snapshot has.
func (s *Session) changedAliases(ctx context.Context, e plan.Entry, source *snapshot.Index) (is map[string]json.RawMessage, lost map[string][]string, err error) {
	former, err := e.Since.Locator.Index(ctx, s.Shards.Repo)
	if err != nil {
		return nil, nil, fmt.Errorf("index %s of the former snapshot: %w", e.Locator.IndexName, err)
	}
	was, err := s.Indices.Aliases(ctx, plan.Index{Name: e.Locator.IndexName, Source: former, Entry: e})
	if err != nil {
		return nil, nil, err
	}
	if is, err = s.Indices.Aliases(ctx, plan.Index{Name: e.Locator.IndexName, Source: source, Entry: e}); err != nil {
		return nil, nil, err
	}
	lost = map[string][]string{}
	for name, all := range was {
		has := creation.AliasNames(is[name])
		for _, alias := range slices.Sorted(maps.Keys(creation.AliasNames(all))) {
			if has[alias] == nil {
				lost[name] = append(lost[name], alias)
			}
		}
	}
	return is, lost, nil
}

// left returns the rejected aliases by target index; nil if there were none.
func left(late map[string]json.RawMessage, refused []progress.RefusedAlias) map[string]json.RawMessage {
	var by map[string]json.RawMessage
	for _, r := range refused {
		var all, some map[string]json.RawMessage
		if json.Unmarshal(late[r.Index], &all) != nil {
			continue
		}
		if json.Unmarshal(by[r.Index], &some) != nil {
			some = map[string]json.RawMessage{}
		}
		some[r.Alias] = all[r.Alias]
		body, err := json.Marshal(some)
		if err != nil {
			continue
		}
		if by == nil {
			by = map[string]json.RawMessage{}
		}
		by[r.Index] = body
	}
	return by
}
