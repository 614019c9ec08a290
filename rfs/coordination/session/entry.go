package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// IndexEntry is the record of one index of the snapshot, "index:<base64url of the name>".
type IndexEntry struct {
	Name     string
	State    string // of its creation on the target: PhaseNotStarted, PhaseCompleted or PhaseFailed
	Shards   int
	Attempts int    // at its creation
	Error    string // of the failure, or of the last attempt
	// Ends has, for each shard that is split, the first ordinals after each part; the last one is the number of the shard's ordinals. A
	// shard that stays whole although splitting was requested has none.
	Ends map[int][]int64
	// Body is the data that workers need to find and name the index: an opaque JSON object.
	Body json.RawMessage
}

// storedEntry is the body of the record.
type storedEntry struct {
	Name    string          `json:"name"`
	Shards  int             `json:"shards"`
	Ends    map[int][]int64 `json:"ends,omitempty"`
	Locator json.RawMessage `json:"locator"`
}

// indexSubject returns the subject of events of an index.
func indexSubject(index string) string { return "index " + index }

func entryID(index string) string { return kindIndex + ":" + cms.NameKey(index) }

func decodeEntry(r cms.Record) (IndexEntry, error) {
	var e storedEntry
	if err := r.Decode(&e); err != nil {
		return IndexEntry{}, err
	}
	if err := checkEnds(e.Ends); err != nil {
		return IndexEntry{}, fmt.Errorf("index entry %s: %w", e.Name, err)
	}
	return IndexEntry{Name: e.Name, State: r.State, Shards: e.Shards, Attempts: r.Attempts, Error: r.Error, Ends: e.Ends, Body: e.Locator}, nil
}

// Create stores the entries of indices that have none, in batches, and returns the entries that it stored. After an error some may be
// stored; the next call stores the others.
func (s Entries) Create(ctx context.Context, entries ...IndexEntry) (created []IndexEntry, err error) {
	added := map[string]bool{}
	err = s.items.CreateRecords(ctx, func(yield func(cms.Record, error) bool) {
		for _, e := range entries {
			raw, err := json.Marshal(storedEntry{Name: e.Name, Shards: e.Shards, Locator: e.Body})
			if err != nil {
				err = fmt.Errorf("index entry %s: %w", e.Name, err)
			}
			if !yield(cms.Record{ID: entryID(e.Name), Kind: kindIndex, State: e.State, Error: e.Error, Body: raw}, err) {
				return
			}
		}
	}, func(r cms.Record) { added[r.ID] = true })
	for _, e := range entries {
		if added[entryID(e.Name)] {
			created = append(created, e)
		}
	}
	return created, err
}

// Renew replaces shards and body of an entry that is FAILED. Other entries are kept.
func (s Entries) Renew(ctx context.Context, e IndexEntry) error {
	raw, err := json.Marshal(storedEntry{Name: e.Name, Shards: e.Shards, Locator: e.Body})
	if err != nil {
		return fmt.Errorf("index entry %s: %w", e.Name, err)
	}
	_, err = s.change(ctx, e.Name, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		if r.State != PhaseFailed {
			return r, cms.Already
		}
		r.Body = raw
		return r, cms.Applied
	})
	return err
}

// Read returns the entry of an index, or ErrNotFound.
func (s Entries) Read(ctx context.Context, index string) (IndexEntry, error) {
	r, err := s.leases.Record(ctx, entryID(index))
	if err != nil {
		return IndexEntry{}, fmt.Errorf("index entry %s: %w", index, err)
	}
	return decodeEntry(r)
}

// All yields every index entry in order of ids.
func (s Entries) All(ctx context.Context) iter.Seq2[IndexEntry, error] {
	return cms.Decoded(s.leases.List(ctx, kindIndex), decodeEntry)
}

// Complete records that the index exists; body nil keeps the body. An entry that has already ended is returned unchanged.
func (s Entries) Complete(ctx context.Context, index string, body json.RawMessage) (IndexEntry, error) {
	return s.change(ctx, index, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) { return completeEntry(r, body) })
}

// AttemptFailed counts an attempt at creating the index. After the last allowed attempt the entry is FAILED, with one event. seen is the
// number of attempts that the caller read before it tried, so that concurrent attempts count once.
func (s Entries) AttemptFailed(ctx context.Context, index string, seen int, reason string) (IndexEntry, error) {
	return s.fail(ctx, index, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		return failAttempt(r, PhaseNotStarted, seen, s.items.Config().MaxAttempts, reason)
	})
}

// Fail marks the entry FAILED immediately, with one event.
func (s Entries) Fail(ctx context.Context, index, reason string) (IndexEntry, error) {
	return s.fail(ctx, index, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		return failAttempt(r, PhaseNotStarted, r.Attempts, 0, reason)
	})
}

func (s Entries) fail(ctx context.Context, index string, f func(cms.Record, time.Time) (cms.Record, cms.Result)) (IndexEntry, error) {
	e, err := s.change(ctx, index, f)
	if err != nil {
		return e, err
	}
	return e, s.Events(ctx, e)
}

// Events records an event for each failed index, once, in batches.
func (s Entries) Events(ctx context.Context, entries ...IndexEntry) error {
	return s.items.Events(ctx, "failed", func(yield func(subject, reason string) bool) {
		for _, e := range entries {
			if e.State == PhaseFailed && !yield(indexSubject(e.Name), e.Error) {
				return
			}
		}
	})
}

// UpdateBody replaces the body of an entry by the result of f. f returns nil to keep it, and is called again if another process changes the
// entry meanwhile.
func (s Entries) UpdateBody(ctx context.Context, index string, f func(json.RawMessage) json.RawMessage) error {
	_, err := s.change(ctx, index, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) { return withBody(r, f) })
	return err
}

// Reopen allows a FAILED index to be created again and records the operator.
func (s Entries) Reopen(ctx context.Context, index, operator string) (reopened bool, err error) {
	ch, err := s.leases.Update(ctx, entryID(index), kindIndex, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		if r.State != PhaseFailed {
			return r, cms.Already
		}
		r.State, r.Attempts, r.Error = PhaseNotStarted, 0, ""
		return r, cms.Applied
	})
	if err != nil || ch.Result != cms.Applied {
		return false, err
	}
	_, err = s.items.Event(ctx, indexSubject(index), "retried-"+strconv.FormatInt(ch.Now.UnixMilli(), 10), operator)
	return true, err
}

func (s Entries) change(ctx context.Context, index string, f func(cms.Record, time.Time) (cms.Record, cms.Result)) (IndexEntry, error) {
	ch, err := s.leases.Update(ctx, entryID(index), kindIndex, func(r cms.Record, now time.Time) (cms.Record, cms.Result) {
		if r.State == "" {
			return r, cms.Lost
		}
		return f(r, now)
	})
	if err != nil {
		return IndexEntry{}, err
	}
	if ch.Record.State == "" {
		return IndexEntry{}, fmt.Errorf("index entry %s: %w", index, cms.ErrNotFound)
	}
	return decodeEntry(ch.Record)
}

// completeEntry, failAttempt and withBody are the changes of an entry, as pure functions.
func completeEntry(r cms.Record, body json.RawMessage) (cms.Record, cms.Result) {
	if r.State != PhaseNotStarted {
		return r, cms.Already
	}
	r.State, r.Error = PhaseCompleted, ""
	if body != nil {
		return withBody(r, func(json.RawMessage) json.RawMessage { return body })
	}
	return r, cms.Applied
}

func failAttempt(r cms.Record, open string, seen, most int, reason string) (cms.Record, cms.Result) {
	if r.State != open || r.Attempts != seen {
		return r, cms.Already
	}
	r.Attempts++
	r.Error = reason
	if r.Attempts > most {
		r.State = PhaseFailed
	}
	return r, cms.Applied
}

func withBody(r cms.Record, f func(json.RawMessage) json.RawMessage) (cms.Record, cms.Result) {
	var e storedEntry
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return r, cms.Lost // decodeEntry returns the error
	}
	if e.Locator = f(e.Locator); e.Locator == nil {
		return r, cms.Already
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return r, cms.Lost
	}
	r.Body = raw
	return r, cms.Applied
}

// Target returns the recorded UUID of a target index, or "".
func (s Entries) Target(ctx context.Context, index string) (string, error) {
	r, err := s.leases.Record(ctx, kindTarget+":"+cms.NameKey(index))
	if errors.Is(err, cms.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("target of %s: %w", index, err)
	}
	return decodeTarget(r)
}

// FewRecords is the number of records up to which reading each by its id costs less than a list, which contains all records of their kind
// and needs a refresh of the control index.
const FewRecords = 32

// Targets returns the recorded UUIDs of the named target indices, and maybe of others, by name; without names, of all. A target index
// without a recorded UUID is left out.
func (s Entries) Targets(ctx context.Context, names ...string) (map[string]string, error) {
	all := map[string]string{}
	if len(names) > 0 && len(names) <= FewRecords {
		for _, name := range names {
			uuid, err := s.Target(ctx, name)
			if err != nil {
				return nil, err
			}
			if uuid != "" {
				all[name] = uuid
			}
		}
		return all, nil
	}
	for r, err := range s.leases.List(ctx, kindTarget) {
		if err != nil {
			return nil, fmt.Errorf("target indices: %w", err)
		}
		var is targetRecord
		if err := r.Decode(&is); err != nil {
			return nil, err
		}
		all[is.Name] = is.UUID
	}
	return all, nil
}

// targetRecord is the body of a record of kindTarget.
type targetRecord struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
}

func decodeTarget(r cms.Record) (string, error) {
	var got targetRecord
	err := r.Decode(&got)
	return got.UUID, err
}

// ForgetTarget removes the recorded UUID of a deleted target index, so that another index of its name can be claimed.
func (s Entries) ForgetTarget(ctx context.Context, index string) error {
	err := s.leases.Forget(ctx, kindTarget+":"+cms.NameKey(index))
	if errors.Is(err, cms.ErrNotFound) || errors.Is(err, cms.ErrConflict) {
		return nil // another process has claimed the new one
	}
	return err
}

// ClaimTarget records the UUID of the target index unless one is recorded, and returns the recorded one. A worker that finds another UUID
// under the name stops.
func (s Entries) ClaimTarget(ctx context.Context, index, uuid string) (recorded string, err error) {
	body, err := json.Marshal(targetRecord{index, uuid})
	if err != nil {
		return "", fmt.Errorf("target of %s: %w", index, err)
	}
	id := kindTarget + ":" + cms.NameKey(index)
	r, err := s.leases.ReadOrCreate(ctx, cms.Record{ID: id, Kind: kindTarget, Body: body})
	if err != nil {
		return "", err
	}
	return decodeTarget(r)
}
