package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// States of an item.
const (
	Open      = "open"
	Leased    = "leased"
	Expired   = "expired" // its lease is over: the next worker may acquire it
	Done      = "done"
	HandedOff = "handed off" // its successors have the rest
	Failed    = "failed"
)

// ItemStates lists all states, in the order in which they are counted.
var ItemStates = []string{Open, Leased, Expired, Done, HandedOff, Failed}

// stateOf returns the state of an item. now is the store's clock.
func stateOf(it cms.Item, now time.Time) string {
	switch {
	case it.FailedItem():
		return Failed
	case !it.Open() && it.Successors != "":
		return HandedOff
	case !it.Open():
		return Done
	case it.Holder == "":
		return Open
	case it.Expiration <= now.Unix():
		return Expired
	}
	return Leased
}

// Sums are numbers of documents and bytes of one or more items.
type Sums struct {
	Ordinals int64 `json:"ordinals,omitempty"`       // passed: documents, deleted and nested ones
	Live     int64 `json:"documents_live,omitempty"` // root documents among them
	Indexed  int64 `json:"documents_indexed"`
	Failed   int64 `json:"documents_failed"`
	Filtered int64 `json:"documents_filtered"`
	Kept     int64 `json:"documents_kept,omitempty"`    // the target had them already
	Reduced  int64 `json:"documents_reduced,omitempty"` // part of Indexed: the source may lack parts
	Rebuilt  int64 `json:"documents_rebuilt,omitempty"` // the source was not stored and was rebuilt
	KeptLast int64 `json:"documents_with_duplicate_keys,omitempty"`
	Retried  int64 `json:"documents_retried,omitempty"`  // sent again by retried requests, counted each time
	Resent   int64 `json:"documents_resent,omitempty"`   // sent again after a hand-off, counted each time
	Replaced int64 `json:"documents_replaced,omitempty"` // part of Indexed: replaced documents from before this session, such as an earlier run's
	Bytes    int64 `json:"source_bytes"`                 // of indexed, kept or failed documents
}

func sumsOf(c cms.Counts) Sums {
	return Sums{
		Ordinals: c.Ordinals, Live: c.Live, Indexed: c.Indexed, Failed: c.Failed, Filtered: c.Filtered, Kept: c.Kept,
		Reduced: c.Reduced, Rebuilt: c.Rebuilt, KeptLast: c.KeptLast, Bytes: c.Bytes,
		Retried: c.Retried, Resent: c.Resent, Replaced: c.Replaced,
	}
}

func (s *Sums) add(o Sums) {
	s.Ordinals, s.Live, s.Bytes = s.Ordinals+o.Ordinals, s.Live+o.Live, s.Bytes+o.Bytes
	s.Indexed, s.Failed, s.Filtered, s.Kept = s.Indexed+o.Indexed, s.Failed+o.Failed, s.Filtered+o.Filtered, s.Kept+o.Kept
	s.Reduced, s.Rebuilt, s.KeptLast = s.Reduced+o.Reduced, s.Rebuilt+o.Rebuilt, s.KeptLast+o.KeptLast
	s.Retried, s.Resent, s.Replaced = s.Retried+o.Retried, s.Resent+o.Resent, s.Replaced+o.Replaced
}

// Item is one work item of the store.
type Item struct {
	ID         string     `json:"id"`
	Index      string     `json:"index"`
	Shard      int        `json:"shard"`
	Cursor     int64      `json:"cursor"`        // first ordinal
	End        int64      `json:"end,omitempty"` // first ordinal after the item; absent: the end of the shard
	State      string     `json:"state"`         // see ItemStates
	Holder     string     `json:"holder,omitempty"`
	Expiry     *time.Time `json:"lease_expiry,omitempty"`
	Attempts   int        `json:"attempts,omitempty"` // consecutive ones without progress
	Watermark  int64      `json:"watermark,omitempty"`
	Failure    string     `json:"failure,omitempty"`
	Successors []string   `json:"successors,omitempty"`
	Acquired   *time.Time `json:"acquired,omitempty"`  // last
	Completed  *time.Time `json:"completed,omitempty"` // in whole seconds, rounded down
	Setup      float64    `json:"setup_seconds,omitempty"`
	Exponent   int        `json:"lease_exponent,omitempty"` // the next lease lasts 2^this × the initial lease
	Released   string     `json:"released_for,omitempty"`   // cause of the last release
	Creator    string     `json:"created_by,omitempty"`
	Sums
}

// ended reports whether the item has ended, unless an operator reopens it.
func (x Item) ended() bool { return x.Completed != nil || x.State == Done || x.State == Failed }

// lease returns the duration of the last lease of an ended item; 0: unknown.
func (x Item) lease() time.Duration {
	if x.State == Failed || x.Acquired == nil || x.Completed == nil {
		return 0
	}
	return max(x.Completed.Sub(*x.Acquired), 500*time.Millisecond)
}

func itemOf(it cms.Item, now time.Time) (Item, bool) {
	id, err := it.Range()
	if err != nil {
		return Item{}, false
	}
	x := Item{
		ID: it.ID, Index: id.Index, Shard: id.Shard, Cursor: id.Cursor, End: it.End, State: stateOf(it, now), Holder: it.Holder, Attempts: it.Attempts,
		Watermark: it.Watermark, Failure: it.Failure, Successors: it.SuccessorIDs(), Setup: float64(it.SetupMs) / 1000,
		Exponent: int(it.Exponent), Released: it.ReleasedFor, Creator: it.CreatorID, Sums: sumsOf(it.Counts),
	}
	if it.Open() && it.Holder != "" {
		t := progress.Time(it.Expiration * 1000)
		x.Expiry = &t
	}
	if it.AcquiredAt != 0 {
		t := progress.Time(it.AcquiredAt)
		x.Acquired = &t
	}
	if it.CompletedAt != 0 {
		t := progress.Time(it.CompletedAt * 1000)
		x.Completed = &t
	}
	return x, true
}

// inOrder sorts items by index, shard and cursor.
func inOrder(items []Item) {
	slices.SortStableFunc(items, func(a, b Item) int {
		return cmp.Or(strings.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Cursor, b.Cursor))
	})
}

// ItemFilter selects items; zero values select all.
type ItemFilter struct {
	ID     string
	Index  string
	States []string
	Limit  int // maximum number; 0: 1000
}

func (f ItemFilter) takes(x Item) bool {
	return (f.ID == "" || f.ID == x.ID) && (f.Index == "" || f.Index == x.Index) && (len(f.States) == 0 || slices.Contains(f.States, x.State))
}

// ItemList is a list of items. Its sums cover all items, not only the listed ones.
type ItemList struct {
	ReadAt   time.Time      `json:"read_at"` // by the clock of the store
	Items    []Item         `json:"items"`
	States   map[string]int `json:"items_by_state"`
	Total    int            `json:"items_total"`
	Totals   Sums           `json:"totals"`
	Seeded   bool           `json:"seeded"` // every item exists
	Safe     bool           `json:"safe_to_write"`
	SafeFrom *time.Time     `json:"safe_to_write_from,omitempty"`
	// Following means that rounds of a cluster that is followed may still change the target.
	Following bool     `json:"following,omitempty"`
	Foreign   []string `json:"foreign_documents,omitempty"` // ids of documents among the items that are none
}

func countStates(all []Item) map[string]int {
	states := map[string]int{}
	for _, x := range all {
		states[x.State]++
	}
	return states
}

// NewItemList returns the items of a session that f selects.
func NewItemList(m *progress.Migration, all []Item, f ItemFilter) ItemList {
	l := ItemList{
		ReadAt: m.ReadAt, Items: []Item{}, States: countStates(all), Total: len(all), Seeded: m.Seeded, SafeFrom: m.SafeFrom,
		Safe: m.SafeFrom != nil && !m.ReadAt.Before(*m.SafeFrom), Following: m.Following, Foreign: m.Foreign,
	}
	limit := cmp.Or(max(f.Limit, 0), 1000)
	for _, x := range all {
		l.Totals.add(x.Sums)
		if len(l.Items) < limit && f.takes(x) {
			l.Items = append(l.Items, x)
		}
	}
	return l
}
