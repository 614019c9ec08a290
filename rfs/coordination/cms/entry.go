package cms

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// IndexEntry is the record of one index of the snapshot, "index:<base64url of the name>".
type IndexEntry struct {
	Name     string
	State    string // PhaseNotStarted, PhaseCompleted or PhaseFailed: of its creation on the target
	Shards   int
	Attempts int    // at creating it
	Error    string // why it failed, or why the last attempt did
	// Ends are, of each shard that is worked on in parts, the first ordinals behind each part; the last one is the number of
	// the shard's ordinals. A shard that stays whole although it was to be split has none.
	Ends map[int][]int64
	// Body is what a worker needs to find and name the index; an opaque JSON object.
	Body json.RawMessage
}

// storedEntry is the body of the record.
type storedEntry struct {
	Name    string          `json:"name"`
	Shards  int             `json:"shards"`
	Ends    map[int][]int64 `json:"ends,omitempty"`
	Locator json.RawMessage `json:"locator"`
}

// indexSubject is what events of an index are about.
func indexSubject(index string) string { return "index " + index }

func entryID(index string) string { return kindIndex + ":" + indexKey(index) }

func decodeEntry(r Record) (IndexEntry, error) {
	var e storedEntry
	if err := r.Decode(&e); err != nil {
		return IndexEntry{}, err
	}
	if err := checkEnds(e.Ends); err != nil {
		return IndexEntry{}, fmt.Errorf("index entry %s: %w", e.Name, err)
	}
	return IndexEntry{Name: e.Name, State: r.State, Shards: e.Shards, Attempts: r.Attempts, Error: r.Error, Ends: e.Ends, Body: e.Locator}, nil
}

// CreateIndexEntry stores the entry of an index unless there is one.
func (c *Coordinator) CreateIndexEntry(ctx context.Context, e IndexEntry) (created bool, err error) {
	raw, err := json.Marshal(storedEntry{Name: e.Name, Shards: e.Shards, Locator: e.Body})
	if err != nil {
		return false, fmt.Errorf("index entry %s: %w", e.Name, err)
	}
	return c.createRecord(ctx, Record{ID: entryID(e.Name), Kind: kindIndex, State: e.State, Error: e.Error, Body: raw})
}

// RenewIndexEntry replaces shards and body of an entry that is FAILED; another one stays as it is.
func (c *Coordinator) RenewIndexEntry(ctx context.Context, e IndexEntry) error {
	raw, err := json.Marshal(storedEntry{Name: e.Name, Shards: e.Shards, Locator: e.Body})
	if err != nil {
		return fmt.Errorf("index entry %s: %w", e.Name, err)
	}
	_, err = c.changeEntry(ctx, e.Name, func(r Record, _ time.Time) (Record, Result) {
		if r.State != PhaseFailed {
			return r, Already
		}
		r.Body = raw
		return r, Applied
	})
	return err
}

// IndexEntry returns the entry of an index, or ErrNotFound.
func (c *Coordinator) IndexEntry(ctx context.Context, index string) (IndexEntry, error) {
	r, err := c.record(ctx, entryID(index))
	if err != nil {
		return IndexEntry{}, fmt.Errorf("index entry %s: %w", index, err)
	}
	return decodeEntry(r)
}

// IndexEntries yields every index entry in order of ids.
func (c *Coordinator) IndexEntries(ctx context.Context) iter.Seq2[IndexEntry, error] {
	return decoded(c.list(ctx, kindIndex), decodeEntry)
}

// CompleteIndex records that the index is there; body nil keeps the body. An entry that
// has ended already stays as it is, and is returned as it is.
func (c *Coordinator) CompleteIndex(ctx context.Context, index string, body json.RawMessage) (IndexEntry, error) {
	return c.changeEntry(ctx, index, func(r Record, _ time.Time) (Record, Result) { return completeEntry(r, body) })
}

// AttemptFailed counts an attempt at creating the index. With the last of the attempts that
// are allowed the entry is FAILED, with one event. seen are the attempts that the caller
// read before it tried: of several that tried at the same time only one counts.
func (c *Coordinator) AttemptFailed(ctx context.Context, index string, seen int, reason string) (IndexEntry, error) {
	return c.fail(ctx, index, func(r Record, _ time.Time) (Record, Result) {
		return failAttempt(r, PhaseNotStarted, seen, c.cfg.MaxAttempts, reason)
	})
}

// FailIndexEntry gives the index up at once, with one event.
func (c *Coordinator) FailIndexEntry(ctx context.Context, index, reason string) (IndexEntry, error) {
	return c.fail(ctx, index, func(r Record, _ time.Time) (Record, Result) {
		return failAttempt(r, PhaseNotStarted, r.Attempts, 0, reason)
	})
}

func (c *Coordinator) fail(ctx context.Context, index string, f func(Record, time.Time) (Record, Result)) (IndexEntry, error) {
	e, err := c.changeEntry(ctx, index, f)
	if err != nil {
		return e, err
	}
	return e, c.IndexEvent(ctx, e)
}

// IndexEvent records the failure of an index as an event, once.
func (c *Coordinator) IndexEvent(ctx context.Context, e IndexEntry) error {
	if e.State != PhaseFailed {
		return nil
	}
	_, err := c.Event(ctx, indexSubject(e.Name), "failed", e.Error)
	return err
}

// UpdateIndexBody replaces the body of an entry by what f makes of it; f returns nil to leave
// it, and may be called again when another process changed the entry meanwhile.
func (c *Coordinator) UpdateIndexBody(ctx context.Context, index string, f func(json.RawMessage) json.RawMessage) error {
	_, err := c.changeEntry(ctx, index, func(r Record, _ time.Time) (Record, Result) { return withBody(r, f) })
	return err
}

// ReopenIndex lets a FAILED index be created again and records who asked for it.
func (c *Coordinator) ReopenIndex(ctx context.Context, index, operator string) (reopened bool, err error) {
	ch, err := c.change(ctx, entryID(index), kindIndex, func(r Record, _ time.Time) (Record, Result) {
		if r.State != PhaseFailed {
			return r, Already
		}
		r.State, r.Attempts, r.Error = PhaseNotStarted, 0, ""
		return r, Applied
	})
	if err != nil || ch.Result != Applied {
		return false, err
	}
	_, err = c.Event(ctx, indexSubject(index), "retried-"+strconv.FormatInt(ch.Now.UnixMilli(), 10), operator)
	return true, err
}

func (c *Coordinator) changeEntry(ctx context.Context, index string, f func(Record, time.Time) (Record, Result)) (IndexEntry, error) {
	ch, err := c.change(ctx, entryID(index), kindIndex, func(r Record, now time.Time) (Record, Result) {
		if r.State == "" {
			return r, Lost
		}
		return f(r, now)
	})
	if err != nil {
		return IndexEntry{}, err
	}
	if ch.Record.State == "" {
		return IndexEntry{}, fmt.Errorf("index entry %s: %w", index, ErrNotFound)
	}
	return decodeEntry(ch.Record)
}

// completeEntry, failAttempt and withBody are the changes of an entry, as pure functions.
func completeEntry(r Record, body json.RawMessage) (Record, Result) {
	if r.State != PhaseNotStarted {
		return r, Already
	}
	r.State, r.Error = PhaseCompleted, ""
	if body != nil {
		return withBody(r, func(json.RawMessage) json.RawMessage { return body })
	}
	return r, Applied
}

func failAttempt(r Record, open string, seen, most int, reason string) (Record, Result) {
	if r.State != open || r.Attempts != seen {
		return r, Already
	}
	r.Attempts++
	r.Error = reason
	if r.Attempts > most {
		r.State = PhaseFailed
	}
	return r, Applied
}

func withBody(r Record, f func(json.RawMessage) json.RawMessage) (Record, Result) {
	var e storedEntry
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return r, Lost // decodeEntry says so
	}
	if e.Locator = f(e.Locator); e.Locator == nil {
		return r, Already
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return r, Lost
	}
	r.Body = raw
	return r, Applied
}

// CreateFailedItems creates the items of an index that does not exist on the target, ended
// with its reason from the beginning: they are never leased.
func (c *Coordinator) CreateFailedItems(ctx context.Context, index string, shards int, reason string) error {
	now, _, err := c.now(ctx)
	if err != nil {
		return err
	}
	items := make([]Item, 0, shards)
	for n := range shards {
		id := ItemID{Index: index, Shard: n}.String()
		if len(id) > MaxIDLength {
			return fmt.Errorf("index name %q is too long for a work item: %w", index, fault.ErrUnsupported)
		}
		it := NewItem(id, c.cfg.Creator, 0)
		it.IndexName, it.Status, it.Failure, it.CompletedAt = index, StatusFailed, reason, now.Unix()
		items = append(items, it)
	}
	if len(items) == 0 {
		return nil
	}
	_, err = c.create(ctx, items)
	return err
}
