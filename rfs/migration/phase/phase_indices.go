package phase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// IndicesRecord is the body of phase:index, the result of planning.
type IndicesRecord struct {
	Snapshot string `json:"snapshot"`
	UUID     string `json:"snapshotUUID"`
	Indices  int    `json:"indices"` // number of entries
	// Unchanged is the number of indices that are the same as in the former snapshot of a followed cluster.
	Unchanged int `json:"unchanged,omitempty"`
	// Vanished is the number of indices that only the former snapshot has.
	Vanished int      `json:"vanished,omitempty"`
	LeftOut  []string `json:"left_out,omitempty"`
	Missing  []string `json:"missing_shards,omitempty"`
}

// DecodeIndices decodes the body of phase:index. An empty body decodes to the zero record. Errors are fault.ErrCorrupt.
func DecodeIndices(body []byte) (r IndicesRecord, err error) {
	if len(body) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("record of the indices: %w: %w", err, fault.ErrCorrupt)
	}
	return r, nil
}

// listIndices creates an entry for each index of the plan.
func (s *Session) listIndices(ctx context.Context, lease *session.PhaseLease) error {
	plan, err := s.plan(ctx)
	if err != nil {
		return err
	}
	if err := s.continues(ctx, plan); err != nil {
		return err
	}
	if err := s.preview(ctx, plan); err != nil {
		return err
	}
	if err := s.createEntries(ctx, plan); err != nil {
		return err
	}
	if err := s.deleteVanished(ctx, plan); err != nil {
		return err
	}
	if err := s.nameLeft(ctx, plan); err != nil {
		return err
	}
	r := IndicesRecord{Snapshot: plan.Snapshot, UUID: plan.UUID, Vanished: len(plan.Vanished), LeftOut: plan.LeftOut, Missing: plan.Missing}
	var names []string
	for _, x := range plan.Indices {
		if x.Unchanged {
			r.Unchanged++
			continue
		}
		names = append(names, x.Name)
	}
	if r.Indices = len(names); r.Indices > session.BatchSize {
		for _, x := range plan.Unread {
			names = append(names, x.Name)
		}
		if err := session.BatchesOf(s.Coordinator).Divide(ctx, names); err != nil {
			return err
		}
	}
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record of the indices: %w", err)
	}
	if err := lease.Advance(ctx, session.PhaseInProgress, body); err != nil {
		return err
	}
	s.listed = names
	return nil
}

// mostUnread is the maximum number of indices with damaged metadata that a session records individually. With more, the phase fails because
// the repository as a whole is damaged.
const mostUnread = 10_000

// entriesAtOnce is the number of entries that createEntries creates in one request.
const entriesAtOnce = 500

func (s *Session) createEntries(ctx context.Context, plan *plan.Plan) error {
	if n := len(plan.Unread); n > mostUnread {
		return fmt.Errorf("the metadata of %d indices cannot be read, more than %d: files of the repository are missing; restore them, or select other indices with --index-allowlist; the first of them: %s: %w",
			n, mostUnread, plan.Unread[0].Reason, fault.ErrCorrupt)
	}
	if err := s.noteStreams(ctx, plan); err != nil {
		return err
	}
	for part := range slices.Chunk(plan.Indices, entriesAtOnce) {
		entries := make([]session.IndexEntry, 0, len(part))
		for _, x := range part {
			if x.Unchanged {
				continue
			}
			s.noteHeld(&x.Entry)
			if err := s.noteFormer(ctx, &x.Entry); err != nil {
				return err
			}
			body, err := x.Entry.Encode()
			if err != nil {
				return err
			}
			entries = append(entries, session.IndexEntry{Name: x.Name, State: session.PhaseNotStarted, Shards: x.Entry.Shards, Body: body})
		}
		if _, err := session.EntriesOf(s.Coordinator).Create(ctx, entries...); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(plan.Unread, entriesAtOnce) {
		entries := make([]session.IndexEntry, 0, len(part))
		for _, x := range part {
			body, err := plan.UnreadEntry(x).Encode()
			if err != nil {
				return err
			}
			entries = append(entries, session.IndexEntry{Name: x.Name, State: session.PhaseFailed, Error: x.Reason, Body: body})
		}
		created, err := session.EntriesOf(s.Coordinator).Create(ctx, entries...)
		if err != nil {
			return err
		}
		for _, e := range created {
			s.Log.ErrorContext(ctx, "index fails: its metadata is damaged", "index", e.Name, "error", e.Error)
		}
		if err := session.EntriesOf(s.Coordinator).Events(ctx, entries...); err != nil { // also if a process crashed before it created its events
			return err
		}
	}
	return nil
}

// renewUnread replaces the entry of an index whose metadata could not be read before with the planned entry. It reports whether the
// metadata can be read now.
func (s *Session) renewUnread(ctx context.Context, name string) (bool, error) {
	if _, err := s.plan(ctx); err != nil {
		return false, err
	}
	x := s.plannedIndices()[name]
	if x == nil || x.Source == nil {
		return false, nil
	}
	body, err := x.Entry.Encode()
	if err != nil {
		return false, err
	}
	return true, session.EntriesOf(s.Coordinator).Renew(ctx, session.IndexEntry{Name: name, State: session.PhaseFailed, Shards: x.Entry.Shards, Body: body})
}

// Entries returns the entries of all indices of the session.
func (s *Session) Entries(ctx context.Context) ([]session.IndexEntry, error) {
	var all []session.IndexEntry
	for e, err := range session.EntriesOf(s.Coordinator).All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list indices: %w", err)
		}
		all = append(all, e)
	}
	return all, nil
}

// makeIndex creates the target indices of one entry, unless another worker has done so. again is the back-off before the next attempt; 0
// once the entry is COMPLETED or FAILED.
func (s *Session) makeIndex(ctx context.Context, name string) (worked bool, again time.Duration, err error) {
	e, err := session.EntriesOf(s.Coordinator).Read(ctx, name)
	if err != nil || e.State != session.PhaseNotStarted {
		return false, 0, err
	}
	entry, err := s.readEntry(ctx, e)
	if err != nil {
		return false, 0, err
	}
	if entry, err = s.tryIndex(ctx, entry); err == nil {
		body, err := entry.Encode()
		if err != nil {
			return true, 0, err
		}
		_, err = session.EntriesOf(s.Coordinator).Complete(ctx, name, body)
		return true, 0, err
	}
	if errors.Is(err, fault.ErrUnavailable) || errors.Is(err, objects.ErrRollover) || ctx.Err() != nil {
		return true, 0, err // the index is not the cause
	}
	s.Log.WarnContext(ctx, "index cannot be created", "index", name, "attempt", e.Attempts+1, "error", err)
	if ferr := s.forgetOurs(ctx, entry); ferr != nil {
		return true, 0, errors.Join(err, ferr)
	}
	if errors.Is(err, fault.ErrConfig) { // the user has to act; another attempt would fail alike
		_, err = session.EntriesOf(s.Coordinator).Fail(ctx, name, fault.Text(err))
		return true, 0, err
	}
	again = s.pauseAfter(e.Attempts, err)
	failed, err := session.EntriesOf(s.Coordinator).AttemptFailed(ctx, name, e.Attempts, fault.Text(err))
	if failed.State == session.PhaseFailed {
		again = 0
	}
	return true, again, err
}

// tryIndex creates the missing target indices of an entry and records their UUIDs.
func (s *Session) tryIndex(ctx context.Context, entry plan.Entry) (plan.Entry, error) {
	source, err := s.SourceIndex(ctx, entry.Locator)
	if err != nil {
		return entry, err
	}
	if s.Indices != nil {
		if err := s.discardFormer(ctx, entry); err != nil {
			return entry, err
		}
		// Record the missing indices before creating them: they are this session's.
		absent, err := s.Indices.Absent(ctx, entry.Naming.Targets())
		if err != nil {
			return entry, err
		}
		if err := s.followsOn(ctx, entry, absent); err != nil {
			return entry, err
		}
		if err := entry.Foreign(absent); err != nil {
			return entry, err
		}
		if len(absent) > 0 {
			if entry, err = s.noteOurs(ctx, entry, absent); err != nil {
				return entry, err
			}
			if err := s.intend(ctx, entry, absent); err != nil {
				return entry, err
			}
		}
		mark, err := s.Mark(ctx)
		if err != nil {
			return entry, err
		}
		left, err := s.settingsSince(ctx, entry, source)
		if err != nil {
			return entry, err
		}
		made, err := s.Indices.Make(ctx, plan.Index{Name: entry.Locator.IndexName, Source: source, Entry: entry, Mark: mark})
		if err != nil {
			return entry, err
		}
		if err := s.confirm(ctx, entry, made.Created); err != nil {
			return entry, err
		}
		made.Differs = append(left, made.Differs...)
		entry.Late, entry.Differs = made.Late, made.Differs[:min(len(made.Differs), mostDiffers)]
		entry.Originals = made.Originals
		if entry, err = s.aliasesSince(ctx, entry, source); err != nil {
			return entry, err
		}
		if err := s.TuneIndices(ctx, entry); err != nil {
			return entry, err
		}
	}
	return entry, s.checkTargets(ctx, entry, 0)
}

// refreshedBytes is the repository size below which an index is loaded so fast that refreshes cost nothing.
const refreshedBytes = 64 << 20

// TuneIndices changes settings of the target indices that this session creates. Refreshes are only switched off for indices that are large
// or of unknown size, and stay on without the permission.
func (s *Session) TuneIndices(ctx context.Context, entry plan.Entry) error {
	scope := s.Tune
	if scope == tuning.Refreshes && len(entry.Bytes) > 0 && entry.Size() < refreshedBytes {
		scope = tuning.Nothing
	}
	if scope == tuning.Nothing || len(entry.Ours) == 0 || entry.Create {
		return nil
	}
	err := s.Tuner.Tune(ctx, entry.Ours, scope)
	if scope == tuning.Refreshes && errors.Is(err, fault.ErrConfig) {
		s.Log.WarnContext(ctx, "the target refreshes indices while documents come: the user may not change their settings", "index", entry.Locator.IndexName, "reason", fault.Text(err))
		return nil
	}
	return err
}

// forgetOurs removes from an entry the indices recorded by noteOurs that were not created, since an operator may create them manually.
func (s *Session) forgetOurs(ctx context.Context, entry plan.Entry) error {
	if s.Indices == nil || len(entry.Ours) == 0 {
		return nil
	}
	absent, err := s.Indices.Absent(ctx, entry.Ours)
	if err != nil || len(absent) == 0 {
		return err
	}
	if err := s.withdraw(ctx, entry, absent); err != nil {
		return err
	}
	entry.Ours = slices.DeleteFunc(entry.Ours, func(name string) bool { return slices.Contains(absent, name) })
	body, err := entry.Encode()
	if err != nil {
		return err
	}
	return session.EntriesOf(s.Coordinator).UpdateBody(ctx, entry.Locator.IndexName, func(json.RawMessage) json.RawMessage { return body })
}

// mostDiffers is the maximum number of differences recorded for an index; the log has all of them.
const mostDiffers = 50

// noteOurs records in the entry that this session creates the absent target indices.
func (s *Session) noteOurs(ctx context.Context, entry plan.Entry, absent []string) (plan.Entry, error) {
	for _, name := range absent {
		if !slices.Contains(entry.Ours, name) {
			entry.Ours = append(entry.Ours, name)
		}
	}
	body, err := entry.Encode()
	if err != nil {
		return entry, err
	}
	return entry, session.EntriesOf(s.Coordinator).UpdateBody(ctx, entry.Locator.IndexName, func(json.RawMessage) json.RawMessage { return body })
}

// SourceIndex returns the metadata of an index in the snapshot, from the plan of this process or else from the repository.
func (s *Session) SourceIndex(ctx context.Context, loc snapshot.Locator) (*snapshot.Index, error) {
	if x := s.plannedIndices()[loc.IndexName]; x != nil && x.Source != nil {
		return x.Source, nil
	}
	return loc.Index(ctx, s.Shards.Repo)
}

// Indices creates and changes indices of the target cluster.
type Indices interface {
	// Check returns an error if the target cannot accept a plan, before anything is written. It adapts the names of data streams and their
	// backing indices in the plan to the target. owns recognizes the indices of former rounds of a followed cluster; nil: there were none.
	Check(ctx context.Context, plan *plan.Plan, owns creation.Owns) error
	// Absent returns the names that nothing on the target has.
	Absent(ctx context.Context, names []string) ([]string, error)
	// ChangeSettings applies settings that have changed since a former snapshot to target indices, and returns a text for each one it left.
	ChangeSettings(ctx context.Context, x plan.Index, former *snapshot.Index, targets []string) (left []string, err error)
	// Make creates the missing target indices of an index and does not change existing ones.
	Make(ctx context.Context, x plan.Index) (creation.Made, error)
	// RemoveAliases removes aliases from a target index and ignores missing ones.
	RemoveAliases(ctx context.Context, index string, names []string) error
	// SetAliases adds aliases to a target index.
	SetAliases(ctx context.Context, index string, aliases json.RawMessage) error
	// Aliases returns the aliases that the target indices of an index may get, by target index. It changes nothing.
	Aliases(ctx context.Context, x plan.Index) (map[string]json.RawMessage, error)
}

// ReopenFailed reopens failed indices and failed phases: a user who runs the command again has usually repaired the cause.
func (s *Session) ReopenFailed(ctx context.Context) error {
	if err := s.renewSnapshot(ctx); err != nil {
		return err
	}
	begun := false
	for _, name := range []string{session.MetadataPhase, session.IndexPhase, session.DocsPhase} {
		row, err := RowFor(name, "")
		if err != nil {
			return err
		}
		if !s.Phases.Has(row.Phase) {
			continue
		}
		p, err := session.PhasesOf(s.Coordinator).Read(ctx, name)
		if err != nil {
			return err
		}
		if p.State == session.PhaseFailed {
			if _, err := session.PhasesOf(s.Coordinator).Reopen(ctx, name, "run again", nil); err != nil {
				return err
			}
		}
		begun = begun || name != session.MetadataPhase && p.State != ""
	}
	if !begun { // no index has an entry
		return nil
	}
	entries, err := s.Entries(ctx)
	if err != nil {
		return err
	}
	again := false
	for _, e := range entries {
		if e.State != session.PhaseFailed {
			continue
		}
		if entry, err := plan.DecodeEntry(e.Name, e.Body); err != nil {
			return err
		} else if entry.Unread {
			readable, err := s.renewUnread(ctx, e.Name)
			if err != nil {
				return err
			}
			if !readable {
				continue
			}
			if e, err = session.EntriesOf(s.Coordinator).Read(ctx, e.Name); err != nil {
				return err
			}
		}
		if s.Phases.Has(PhaseIndices) {
			s.Log.InfoContext(ctx, "failed index is tried again", "index", e.Name)
			if err := session.BatchesOf(s.Coordinator).Reopen(ctx, e.Name); err != nil {
				return err
			}
			_, err = session.EntriesOf(s.Coordinator).Reopen(ctx, e.Name, "run again")
			again = true
		} else {
			err = s.adoptLate(ctx, e)
		}
		if err != nil {
			return err
		}
	}
	if again {
		_, err = session.PhasesOf(s.Coordinator).Move(ctx, session.IndexPhase, session.PhaseCompleted, session.PhaseInProgress, nil)
	}
	return err
}

// adoptLate completes the entry of an index whose target index was missing and now exists.
func (s *Session) adoptLate(ctx context.Context, e session.IndexEntry) error {
	entry, err := s.readEntry(ctx, e)
	if err != nil {
		return err
	}
	if err := s.haveTargets(ctx, entry); errors.Is(err, ErrTargetMissing) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := session.EntriesOf(s.Coordinator).Reopen(ctx, e.Name, "run again"); err != nil {
		return err
	}
	_, err = session.EntriesOf(s.Coordinator).Complete(ctx, e.Name, nil)
	return err
}

// ErrTargetMissing means that a target index is missing and that this run does not create indices.
var ErrTargetMissing = fmt.Errorf("does not exist on the target, and the phase indices is off: create it, or let --phases contain indices: %w", fault.ErrRejected)

// haveTargets returns an ErrTargetMissing if a target index of an entry is missing.
func (s *Session) haveTargets(ctx context.Context, entry plan.Entry) error {
	if s.Targets == nil {
		return nil
	}
	for _, name := range entry.Naming.Targets() {
		_, err := s.targetUUID(ctx, entry, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("index %s %w", name, ErrTargetMissing)
		case err != nil:
			return fmt.Errorf("target index %s: %w", name, err)
		}
	}
	return nil
}

// noteStreams reports data streams that may differ from what an operator expects, once per session.
func (s *Session) noteStreams(ctx context.Context, plan *plan.Plan) error {
	for _, x := range plan.Indices {
		code := x.Entry.StreamCode()
		if code == "" {
			continue
		}
		first, err := s.Coordinator.Event(ctx, "data stream "+x.Entry.Stream.Stream, code, x.Entry.Note())
		if err != nil {
			return err
		}
		if first {
			s.Log.WarnContext(ctx, "data stream", "name", x.Entry.Stream.Stream, "note", x.Entry.Note())
		}
	}
	return nil
}
