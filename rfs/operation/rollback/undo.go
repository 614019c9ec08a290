package rollback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// States of an entry of the list.
const (
	Created  = "created"   // it is on the target and can be removed
	Unknown  = "unknown"   // the target was not queried, and the outcome of its creation is not recorded
	Gone     = "gone"      // it was removed before
	Refused  = "refused"   // it is on the target and is not removed
	OnSource = "on source" // listed only
	Removed  = "removed"   // by this run
	Changed  = "changed"   // a setting that can be restored
	Restored = "restored"  // by this run
)

// Entry is one line of the list.
type Entry struct {
	Kind   string     `json:"kind"`
	Name   string     `json:"name"`
	UUID   string     `json:"uuid,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	State  string     `json:"state"`
	Reason string     `json:"reason,omitempty"` // why it is refused, and the remedy
	// Was and Set are the values of a changed setting; a value that was not set is null.
	Was *string `json:"was,omitempty"`
	Set string  `json:"set,omitempty"`
}

// Undo lists and removes what a session created.
type Undo struct {
	API     rest.API // the target; nil: it is not queried, and nothing can be removed
	Records Records
	Phases  Phases
	Mark    objects.Mark // of the session: objects without it are not removed
	Tuned   func(ctx context.Context) iter.Seq2[session.Tuned, error]
	// Restore restores changed settings, and returns the reasons why some were left, by index and setting ("logs index.refresh_interval").
	Restore func(ctx context.Context) (left map[string]string, err error)
	// Unended allows the removal of indices by their UUIDs alone if the session did not end, so that sequence numbers are unknown: for
	// a trial run, whose indices receive no other writes.
	Unended bool
	// Endless states that the session consumes a stream, so that it has no end at which sequence numbers are recorded.
	Endless bool

	closed bool // Run was called: the migration cannot continue
}

// order is the order of removal: an object is removed before the objects that it names.
var order = []string{
	Alias, Index, DataStream, Setting, string(metadata.Policy), string(metadata.StatePolicy), string(metadata.IndexTemplate), string(metadata.ComponentTemplate),
	string(metadata.LegacyTemplate), string(metadata.Pipeline), string(metadata.Script), Snapshot, Repository,
}

// List returns the objects that the session created, with their states. It leaves out objects that existed before the session, or
// that another client turns out to have created.
func (u *Undo) List(ctx context.Context) ([]Entry, error) {
	var all []session.Creation
	for c, err := range u.Records.All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list of created objects: %w", err)
		}
		all = append(all, c)
	}
	entries := []Entry{}
	for x, err := range u.Tuned(ctx) {
		if err != nil {
			return nil, fmt.Errorf("changed settings: %w", err)
		}
		for _, key := range slices.Sorted(maps.Keys(x.Set)) {
			entries = append(entries, Entry{Kind: Setting, Name: x.Target + " " + key, UUID: x.UUID, State: Changed, Was: x.Was[key], Set: x.Set[key]})
		}
	}
	for _, c := range all {
		found, err := u.look(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
		}
		entries = append(entries, found...)
	}
	if err := u.usedPipelines(ctx, entries); err != nil {
		return nil, err
	}
	snapshot, err := u.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	entries = append(entries, snapshot...)
	slices.SortStableFunc(entries, func(a, b Entry) int {
		if n := slices.Index(order, a.Kind) - slices.Index(order, b.Kind); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
	return entries, nil
}

// snapshot returns the snapshot that the session created on the source, from the record of its phase.
func (u *Undo) snapshot(ctx context.Context) ([]Entry, error) {
	p, err := u.Phases.Read(ctx, session.SnapshotPhase)
	if err != nil || p.State == "" || p.State == session.PhaseNotStarted {
		return nil, err
	}
	var r struct{ Name, Repo, SnapshotUUID string }
	if err := json.Unmarshal(p.Body, &r); err != nil {
		return nil, fmt.Errorf("record of the snapshot: %w: %w", err, fault.ErrCorrupt)
	}
	if p.State == session.PhaseFailed && r.SnapshotUUID == "" {
		return nil, nil // the object of that name is not the session's
	}
	return []Entry{{Kind: Snapshot, Name: r.Repo + "/" + r.Name, UUID: r.SnapshotUUID, Since: &p.Created, State: OnSource,
		Reason: fmt.Sprintf("remove it on the source: DELETE /_snapshot/%s/%s", r.Repo, r.Name)}}, nil
}

// look compares an object with its record, and returns its entry, followed by the entries of an index's aliases; none if the object does
// not belong to the session.
func (u *Undo) look(ctx context.Context, c session.Creation) ([]Entry, error) {
	was, err := decodeObject(c)
	if err != nil {
		return nil, err
	}
	at := c.Since
	e := Entry{Kind: c.Kind, Name: c.Name, UUID: was.UUID, Since: &at, State: Created}
	switch {
	case c.Kind == Repository:
		e.State, e.Reason = OnSource, fmt.Sprintf("remove it on the source: DELETE /_snapshot/%s (the files stay)", c.Name)
		if c.State == session.CreationIntended {
			e.Reason = "the answer to its registration was lost; it may have been there before"
		}
		return []Entry{e}, nil
	case objects.CheckName(c.Kind, c.Name) != nil: // records are untrusted, including their kinds
		e.State, e.Reason = Refused, fault.Text(objects.CheckName(c.Kind, c.Name))
		return []Entry{e}, nil
	case u.API == nil && c.State == session.CreationIntended:
		e.State, e.Reason = Unknown, "its creation was not confirmed: --target-host lets the target be asked"
		return []Entry{e}, nil
	case u.API == nil:
		return append([]Entry{e}, recordedAliases(c.Name, was)...), nil
	}
	is, err := read(ctx, u.API, u.Mark, c.Kind, c.Name, was.Scratch)
	intended := c.State == session.CreationIntended
	switch {
	case intended && (errors.Is(err, errAbsent) || errors.Is(err, errOther)):
		return nil, nil
	case intended && err == nil && !is.marked && c.Kind == DataStream: // it gets the mark only after its creation
		e.State, e.UUID = Refused, is.UUID
		e.Reason = "its creation was not confirmed, and it does not carry the mark of this session: another client or a process that was killed created it" + byHand(c.Kind, c.Name)
		return []Entry{e}, nil
	case intended && err == nil && !is.marked && objects.CanCarry(c.Kind):
		return nil, nil
	case errors.Is(err, errAbsent):
		e.State = Gone
		return []Entry{e}, nil
	case errors.Is(err, errOther):
		e.State, e.Reason = Refused, "an alias has its name now: it is not touched"
		return []Entry{e}, nil
	case errors.Is(err, fault.ErrRejected), errors.Is(err, fault.ErrConfig):
		e.State, e.Reason = Refused, fault.Text(err)
		return []Entry{e}, nil
	case err != nil:
		return nil, err
	}
	if intended {
		scratch := was.Scratch
		was = is.object
		e.UUID, was.Scratch, was.unfilled = was.UUID, scratch, scratch
	}
	switch {
	case is.UUID != was.UUID:
		e.State, e.Reason = Refused, fmt.Sprintf("the target has another one of that name (UUID %s): it is not touched", is.UUID)
	case !objects.CanCarry(c.Kind):
		e.State, e.Reason = Refused, "the target has no place for a mark that proves who created it"+byHand(c.Kind, c.Name)
	case !is.marked && is.otherName != "":
		e.State, e.Reason = Refused, fmt.Sprintf("its mark names the session %q: give --session-name %q", is.otherName, is.otherName)
	case !is.marked:
		e.State, e.Reason = Refused, fmt.Sprintf("it does not carry the mark of this session (--session-name %q): another client created it or removed the mark", u.Mark.Session)+byHand(c.Kind, c.Name)
	case c.Kind == Index || c.Kind == DataStream:
		return u.lookIndex(ctx, e, was, is.object)
	}
	return []Entry{e}, nil
}

// byHand returns the end of a reason: the request that removes the object anyway.
func byHand(kind, name string) string {
	path, _ := removal(kind, name)
	return "; to remove it all the same: DELETE " + path
}

func recordedAliases(index string, was object) []Entry {
	var all []Entry
	for _, name := range was.Aliases {
		all = append(all, Entry{Kind: Alias, Name: name + " of " + index, State: Created})
	}
	return all
}

// lookIndex compares an index or data stream of the session with its record. It returns its entry, and the entries of its aliases
// from the session.
func (u *Undo) lookIndex(ctx context.Context, e Entry, was, is object) ([]Entry, error) {
	ours := func(alias string) bool { return slices.Contains(was.Aliases, alias) }
	others := slices.DeleteFunc(slices.Clone(is.Aliases), ours)
	aliases := recordedAliases(e.Name, object{Aliases: slices.DeleteFunc(is.Aliases, func(alias string) bool { return !ours(alias) })})
	var err error
	if e.Reason, err = u.whyKeep(ctx, e, was); err != nil {
		return nil, err
	}
	if e.Reason == "" && len(others) > 0 {
		e.Reason = "aliases were added since: " + fault.Names(others, 5) + byHand(e.Kind, e.Name)
	}
	if e.Reason != "" {
		e.State = Refused
		for i := range aliases {
			aliases[i].State, aliases[i].Reason = Refused, "its index is not removed"
		}
	}
	return append([]Entry{e}, aliases...), nil
}

// whyKeep returns the reason why an index is not removed, "" if it is unchanged since the session.
func (u *Undo) whyKeep(ctx context.Context, e Entry, was object) (string, error) {
	byHand := byHand(e.Kind, e.Name)
	if was.Touched {
		return "it was written to between two runs of the migration" + byHand, nil
	}
	if was.Foreign > 0 {
		return fmt.Sprintf("it was written to during the migration: %d operations that the migrated documents do not account for", was.Foreign) + byHand, nil
	}
	now, err := Sequence(ctx, u.API, e.Name)
	switch {
	case errors.Is(err, fault.ErrConfig), errors.Is(err, fault.ErrRejected):
		return "its sequence numbers cannot be read: " + fault.Text(err) + byHand, nil
	case err != nil:
		return "", err
	}
	switch {
	case was.Sequence != nil:
		if why := since(was.Sequence, now); why != "" {
			return why + byHand, nil
		}
	case !u.Unended && !was.Scratch, was.unfilled:
		for _, n := range now {
			if n >= 0 {
				why := "the migration did not end, or its end could not read the sequence numbers, so documents of other clients cannot be distinguished from its own"
				switch {
				case u.Endless:
					why = "a session that consumes a topic has no end that records sequence numbers, so documents of other clients cannot be distinguished from its own: check whether others wrote to the index"
				case !u.closed:
					why += ": run the migration to its end before undo"
				}
				return why + byHand, nil
			}
		}
	}
	return "", nil
}

// usedPipelines refuses to remove pipelines that remaining indices name.
func (u *Undo) usedPipelines(ctx context.Context, entries []Entry) error {
	asked := slices.ContainsFunc(entries, func(e Entry) bool { return e.Kind == string(metadata.Pipeline) && e.State == Created })
	if !asked || u.API == nil {
		return nil
	}
	goes := map[string]bool{} // indices, also of data streams
	for _, e := range entries {
		switch {
		case e.State != Created:
		case e.Kind == Index:
			goes[e.Name] = true
		case e.Kind == DataStream:
			p, err := look(ctx, u.API, e.Kind, e.Name)
			if err != nil && !errors.Is(err, errAbsent) {
				return fmt.Errorf("data stream %s: %w", e.Name, err)
			}
			for _, index := range p.indices {
				goes[index] = true
			}
		}
	}
	var answer map[string]struct {
		Settings map[string]json.RawMessage `json:"settings"`
	}
	query := url.Values{"flat_settings": {"true"}, "expand_wildcards": {"all"}}
	err := get(ctx, u.API, "/_all/_settings/index.default_pipeline,index.final_pipeline", query, &answer)
	if errors.Is(err, errAbsent) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pipelines of indices: %w", err)
	}
	users := map[string]string{}
	for index, x := range answer {
		for _, raw := range x.Settings {
			var pipeline string
			if json.Unmarshal(raw, &pipeline) == nil && !goes[index] {
				users[pipeline] = index
			}
		}
	}
	for i, e := range entries {
		if by := users[e.Name]; e.Kind == string(metadata.Pipeline) && e.State == Created && by != "" {
			entries[i].State, entries[i].Reason = Refused, fmt.Sprintf("index %s uses it: delete it by hand when no index does", by)
		}
	}
	return nil
}

// Run removes the objects that List reports as created, restores settings, and returns the list with the outcomes. It compares each
// object again just before, and deletes its record after the removal, so that a run after a kill continues. Errors are
// fault.ErrUnavailable; the list then contains the earlier results.
func (u *Undo) Run(ctx context.Context) ([]Entry, error) {
	u.closed = true
	entries, err := u.List(ctx)
	if err != nil {
		return nil, err
	}
	left, err := u.Restore(ctx)
	if err != nil {
		return entries, err
	}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Kind == Setting && e.State == Changed:
			if e.State = Restored; left[e.Name] != "" {
				e.State, e.Reason = Refused, left[e.Name]
			}
		case e.Kind == Alias, e.State == Refused, e.State == OnSource:
		case e.State == Gone:
			err = u.Records.Forget(ctx, e.Kind, e.Name)
		default:
			err = u.remove(ctx, e)
		}
		if err != nil {
			return entries, fmt.Errorf("%s %s: %w", e.Kind, e.Name, err)
		}
	}
	settle(entries)
	return entries, nil
}

// settle sets the outcome of aliases and settings to the outcome of their indices, which are removed with them.
func settle(entries []Entry) {
	outcome := map[string]string{}
	for _, e := range entries {
		if e.Kind == Index {
			outcome[e.Name] = e.State
		}
	}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Kind == Alias && e.State == Created:
			_, index, _ := strings.Cut(e.Name, " of ")
			if e.State = outcome[index]; e.State == Refused {
				e.Reason = "its index is not removed"
			}
		case e.Kind == Setting:
			index, _, _ := strings.Cut(e.Name, " ")
			if is := outcome[index]; is == Removed || is == Gone {
				e.State, e.Reason = is, ""
			}
		}
	}
}

// removal returns the request that removes exactly one object, whose name has been checked.
func removal(kind, name string) (path string, query url.Values) {
	switch kind {
	case Index:
		return "/" + url.PathEscape(name), url.Values{"expand_wildcards": {"none"}, "ignore_unavailable": {"false"}, "allow_no_indices": {"false"}}
	case DataStream:
		return "/_data_stream/" + url.PathEscape(name), nil
	}
	return objects.ObjectPath(metadata.Kind(kind), name), nil
}

// remove removes one object, unless it differs from its listing.
func (u *Undo) remove(ctx context.Context, e *Entry) error {
	c, err := u.Records.Read(ctx, e.Kind, e.Name)
	if err != nil {
		return err
	}
	now, err := u.look(ctx, c)
	if err != nil || len(now) == 0 {
		return err
	}
	if is := now[0]; is.State == Refused {
		e.State, e.Reason = is.State, is.Reason
		return nil
	}
	path, query := removal(e.Kind, e.Name)
	err = rest.Call(ctx, u.API, http.MethodDelete, path, query, nil, nil)
	var refused *fault.StatusError
	switch {
	case err == nil || fault.HasStatus(err, http.StatusNotFound):
		e.State = Removed
		return u.Records.Forget(ctx, e.Kind, e.Name)
	case errors.Is(err, fault.ErrUnavailable) || !errors.As(err, &refused):
		return err
	}
	e.State, e.Reason = Refused, "the target refuses: "+fault.Text(err)
	return nil
}
