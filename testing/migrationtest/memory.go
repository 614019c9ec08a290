package migrationtest

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Memory is a coordination store in memory that uses the clock of the test.
type Memory struct {
	mu      sync.Mutex
	Items   map[string]cms.Item
	Records map[string]cms.Record
	rev     int64
	// Follows returns an error if a state of a phase's record may not follow another; nil: not checked.
	Follows func(phase, was, is string) error
	Strange []error // errors of Follows
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{Items: map[string]cms.Item{}, Records: map[string]cms.Record{}}
}

// Create adds the items that the store does not have.
func (m *Memory) Create(_ context.Context, items []cms.Item) (created int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range items {
		if _, there := m.Items[it.ID]; !there {
			m.Items[it.ID] = it
			created++
		}
	}
	return created, nil
}

// Apply applies a transition at the time of the test.
func (m *Memory) Apply(_ context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it, there := m.Items[id]
	if !there {
		return it, 0, cms.ErrNotFound
	}
	it, v := t.Apply(it, time.Now().UnixMilli())
	m.Items[id] = it
	return it, v, nil
}

// ApplyAll applies changes in sequence.
func (m *Memory) ApplyAll(ctx context.Context, changes []cms.Change) ([]cms.Outcome, error) {
	outcomes := make([]cms.Outcome, len(changes))
	for i, c := range changes {
		outcomes[i].Item, outcomes[i].Result, outcomes[i].Err = m.Apply(ctx, c.ID, c.Transition)
	}
	return outcomes, nil
}

// PutAll stores records in sequence.
func (m *Memory) PutAll(ctx context.Context, records []cms.Record) ([]error, error) {
	errs := make([]error, len(records))
	for i, r := range records {
		_, errs[i] = m.Put(ctx, r)
	}
	return errs, nil
}

// Get returns an item.
func (m *Memory) Get(_ context.Context, id string) (cms.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it, there := m.Items[id]
	if !there {
		return it, cms.ErrNotFound
	}
	return it, nil
}

// Now returns the time of the test.
func (m *Memory) Now(context.Context) (time.Time, time.Duration, error) { return time.Now(), 0, nil }

// Candidates returns no items.
func (m *Memory) Candidates(context.Context, time.Duration, int) ([]cms.Item, error) {
	return nil, nil
}

// Open counts the items that are not completed.
func (m *Memory) Open(context.Context) (cms.Open, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var o cms.Open
	for id, it := range m.Items {
		if id != cms.SetupID && it.Open() {
			o.Items++
		}
	}
	return o, nil
}

// Incarnation returns the same text for every store.
func (m *Memory) Incarnation(context.Context) (string, error) { return "of this test", nil }

// OfKind returns the store itself: it only holds shards.
func (m *Memory) OfKind(context.Context, string) (cms.Store, error) { return m, nil }

// Scan yields all items in any order.
func (m *Memory) Scan(context.Context) iter.Seq2[cms.Item, error] {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.Items))
	m.mu.Unlock()
	return func(yield func(cms.Item, error) bool) {
		for _, it := range all {
			if !yield(it, nil) {
				return
			}
		}
	}
}

// Record returns a record.
func (m *Memory) Record(_ context.Context, id string) (cms.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, there := m.Records[id]
	if !there {
		return r, cms.ErrNotFound
	}
	return r, nil
}

// Put stores a record if its revision is the stored one.
func (m *Memory) Put(_ context.Context, r cms.Record) (cms.Revision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Records[r.ID].Revision != r.Revision {
		return cms.Revision{}, cms.ErrConflict
	}
	if phase, ok := strings.CutPrefix(r.ID, "phase:"); ok && m.Follows != nil {
		if err := m.Follows(phase, m.Records[r.ID].State, r.State); err != nil {
			m.Strange = append(m.Strange, err)
		}
	}
	m.rev++
	r.Revision = cms.Revision{Seq: m.rev, Term: 1}
	m.Records[r.ID] = r
	return r.Revision, nil
}

// Delete is not supported.
func (m *Memory) Delete(context.Context, cms.Record) error { return errors.ErrUnsupported }

// List yields the records of a kind in the order of their ids.
func (m *Memory) List(_ context.Context, kind string) iter.Seq2[cms.Record, error] {
	m.mu.Lock()
	var all []cms.Record
	for _, id := range slices.Sorted(maps.Keys(m.Records)) {
		if r := m.Records[id]; r.Kind == kind {
			all = append(all, r)
		}
	}
	m.mu.Unlock()
	return func(yield func(cms.Record, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Events returns the number of events with a code.
func (m *Memory) Events(code string) (n int) {
	for _, r := range m.Records {
		if r.Kind == "event" && r.State == code {
			n++
		}
	}
	return n
}

// Creations returns the states in the created list by name.
func (m *Memory) Creations(t *testing.T) map[string]string {
	t.Helper()
	c := cms.New(cms.Config{Store: m, Creator: "test"})
	all := map[string]string{}
	for x, err := range session.CreatedOf(c).All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all[x.Name] = x.State + string(x.Body)
	}
	return all
}
