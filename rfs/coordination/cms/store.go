package cms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Errors of stores and of the Coordinator, in addition to the categories of fault.
// fault.ErrUnavailable from a write means that its outcome is unknown.
var (
	// ErrNotFound: no document of that id.
	ErrNotFound = errors.New("not found in the coordination store")
	// ErrConflict: a record changed since it was read, or exists already.
	ErrConflict = errors.New("changed by another process")
	// ErrSchemaMismatch: the queue was written by another version of the protocol.
	ErrSchemaMismatch = fmt.Errorf("work queue of another script version than %s: %w", ScriptVersion, fault.ErrConfig)
	// ErrStoreGone: the coordination store was deleted, or replaced by another.
	ErrStoreGone = fmt.Errorf("the coordination store is gone: %w", fault.ErrConfig)
	// ErrLocked: another process uses the coordination file.
	ErrLocked = fmt.Errorf("the coordination file is in use, wait until that process has ended: %w", fault.ErrConfig)
	// ErrClockSkew: this machine's clock is too far from the store's.
	ErrClockSkew = fmt.Errorf("clock skew: %w", fault.ErrConfig)
	// ErrAllDone: no item is open.
	ErrAllDone = errors.New("no work left")
	// ErrSetupDone: the items are seeded.
	ErrSetupDone = errors.New("work is already seeded")
	// ErrNoProgress: a hand-off would create the item itself, or is at the start of the acquisition.
	ErrNoProgress = errors.New("no progress to hand off")
	// ErrShort: a completion elsewhere than at the end of the item, or a hand-off at or after it. The lease continues.
	ErrShort = errors.New("not where the item ends")
)

// CheckSession returns an error (fault.ErrConfig) unless name is the name of a session, which may be empty.
func CheckSession(name string) error {
	foreign := func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }
	if len(name) > 64 || strings.ContainsFunc(name, foreign) {
		return fmt.Errorf("session name %q: only a-z, 0-9 and -, at most 64: %w", name, fault.ErrConfig)
	}
	return nil
}

// NoneAvailable means that work is open but leased by others.
type NoneAvailable struct {
	Holder     string    // of the lease that ends first
	NextExpiry time.Time // end of that lease, by the store's clock; others may take it a grace later
	Open       int64     // open items
	Unseeded   bool      // no item is open, and the store does not record that all are seeded
}

// Error names the holder and the time.
func (e *NoneAvailable) Error() string {
	return fmt.Sprintf("no work available: %d items open, the next lease (of %s) ends at %s",
		e.Open, e.Holder, e.NextExpiry.UTC().Format(time.RFC3339))
}

// Transitions is the part of a store that changes items, one at a time and atomically.
type Transitions interface {
	// Create adds items. Items whose id exists are left unchanged and not counted.
	Create(ctx context.Context, items []Item) (created int, err error)
	// Apply runs the transition on the stored item under the store's clock and returns the resulting item. It returns ErrNotFound when the
	// item does not exist.
	Apply(ctx context.Context, id string, t Transition) (Item, Result, error)
	// Get reads the current item.
	Get(ctx context.Context, id string) (Item, error)
	// Now returns the store's clock and its maximum error.
	Now(ctx context.Context) (now time.Time, maxErr time.Duration, err error)
}

// Change is a transition of one item.
type Change struct {
	ID         string
	Transition Transition
}

// Outcome holds the results of Transitions.Apply for a Change.
type Outcome struct {
	Item   Item
	Result Result
	Err    error
}

// Batches is the part of a store that changes several items, or several records, in one request.
type Batches interface {
	// ApplyAll applies each change as Apply does and returns the outcomes in the same order. Each change is atomic by itself. An error
	// applies to the whole request: fault.ErrUnavailable means that every outcome is unknown.
	ApplyAll(ctx context.Context, changes []Change) ([]Outcome, error)
	// PutAll writes each record as Put does and returns the errors in the same order, nil for a written record. Each write is atomic by
	// itself. An error applies to the whole request, as with ApplyAll.
	PutAll(ctx context.Context, records []Record) ([]error, error)
}

// Queue is the part of a store that finds work.
type Queue interface {
	// Candidates returns up to n open items, in random order, whose leases ended more than grace ago. They may be stale. SetupID is never
	// among them.
	Candidates(ctx context.Context, grace time.Duration, n int) ([]Item, error)
	// Open counts the open items without SetupID. It sees every write that was
	// acknowledged before the call.
	Open(ctx context.Context) (Open, error)
}

// Open counts the remaining work.
type Open struct {
	Items      int64
	NextExpiry int64  // smallest expiration of an open item, epoch seconds; 0: an item is free
	Holder     string // holder of the item that expires first
}

// Auditor is the part of a store that reads every item.
type Auditor interface {
	// Scan yields every item, including SetupID, in no particular order, until the first error. It sees every write acknowledged before the
	// call.
	Scan(ctx context.Context) iter.Seq2[Item, error]
}

// Revision is the version of a record; the zero value means "must not exist".
type Revision struct{ Seq, Term int64 }

// Precedes reports whether r is an earlier version of a record than o.
func (r Revision) Precedes(o Revision) bool {
	return r.Term < o.Term || r.Term == o.Term && r.Seq < o.Seq
}

// Record is a control document: every document except work items.
type Record struct {
	ID       string   `json:"-"`
	Revision Revision `json:"-"`

	Kind      string          `json:"kind"`
	State     string          `json:"state,omitempty"`
	Holder    string          `json:"holder,omitempty"`
	Expire    int64           `json:"expire,omitempty"` // epoch ms of the store's clock; 0 = free
	Attempts  int             `json:"attempts,omitempty"`
	CreatedAt int64           `json:"createdAt,omitempty"` // epoch ms
	UpdatedAt int64           `json:"updatedAt,omitempty"` // epoch ms
	Error     string          `json:"error,omitempty"`
	Body      json.RawMessage `json:"body,omitempty"` // an object
}

// Decode unmarshals the body. It returns fault.ErrCorrupt if the body does not fit.
func (r Record) Decode(into any) error {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("record %s: %w: %w", r.ID, err, fault.ErrCorrupt)
	}
	return nil
}

// Records is the part of a store that keeps control records.
type Records interface {
	// Record returns the current record, or ErrNotFound.
	Record(ctx context.Context, id string) (Record, error)
	// Put writes the record if the stored revision is still r.Revision, and returns the new revision; else ErrConflict.
	Put(ctx context.Context, r Record) (Revision, error)
	// Delete removes the record if the stored revision is still r.Revision, else ErrConflict.
	Delete(ctx context.Context, r Record) error
	// List yields the records of a kind in order of ids.
	List(ctx context.Context, kind string) iter.Seq2[Record, error]
}

// Store is a coordination store.
type Store interface {
	Transitions
	Batches
	Queue
	Auditor
	Records
	// Incarnation returns an id that distinguishes this store from all others, including former ones of the same session name. The session
	// marks with it what it creates. A cluster assigns it to the control index, so that no writer of records can choose it.
	Incarnation(ctx context.Context) (string, error)
	// OfKind returns the store of the items of a kind, which are kept apart from the items of shards (kind ""). It shares its records and
	// clock with this store.
	OfKind(ctx context.Context, kind string) (Store, error)
}
