package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// Account is a summary of a session, for the archive.
type Account struct {
	ReadAt    time.Time           `json:"read_at"` // by the clock of the store
	Migration *progress.Migration `json:"migration"`
	Items     map[string]int      `json:"items_by_state"`
	Work      Work                `json:"work"`
	Refused   []RefusedGroup      `json:"refused"` // documents recorded by a fleet; Failures lists them
	Events    []Event             `json:"events"`  // last events of the store, at most KeptEvents
}

// KeptEvents limits the events that a node keeps, and that an account contains.
const KeptEvents = 1000

// NewAccount returns the account of a session as it was read.
func NewAccount(m *progress.Migration, items []Item, failures *Failures, events []Event) Account {
	of := []Event{}
	for _, e := range events {
		if e.ID != "" {
			of = append(of, e)
		}
	}
	return Account{
		ReadAt: m.ReadAt, Migration: m, Items: countStates(items), Work: newWork(items), Refused: failures.Groups,
		Events: of[max(0, len(of)-KeptEvents):],
	}
}

// IndexWork is the work on the items of one index.
type IndexWork struct {
	Index    string  `json:"index"`
	Items    int     `json:"items"`
	Ended    int     `json:"ended"` // done, handed off or failed
	GivenUp  int     `json:"items_failed"`
	Seconds  float64 `json:"lease_seconds"` // in the last leases of ended items
	Setup    float64 `json:"setup_seconds"`
	Rate     float64 `json:"documents_per_second"` // per worker
	ByteRate float64 `json:"bytes_per_second"`     // per worker
	Sums

	timedDocs, timedBytes int64
}

// Work describes the time spent on items. Percentiles are of ended items, in seconds.
type Work struct {
	Indices        []IndexWork `json:"indices"`
	Total          IndexWork   `json:"total"`
	First          *time.Time  `json:"first_lease,omitempty"` // start of the first of all items' last leases
	Last           *time.Time  `json:"last_end,omitempty"`
	SetupShare     float64     `json:"setup_share"` // fraction of all lease time, 0 to 1
	SetupP50       float64     `json:"setup_p50_seconds"`
	SetupP90       float64     `json:"setup_p90_seconds"`
	DurationP50    float64     `json:"duration_p50_seconds"`
	DurationP90    float64     `json:"duration_p90_seconds"`
	SuggestedLease string      `json:"suggested_initial_lease,omitempty"` // such as 10m; absent until an item has ended

	setups, durations []time.Duration
}

func newWork(items []Item) Work {
	w, by := Work{Indices: []IndexWork{}, Total: IndexWork{Index: "total"}}, map[string]*IndexWork{}
	for _, x := range items {
		if by[x.Index] == nil {
			by[x.Index] = &IndexWork{Index: x.Index}
		}
		w.add(by[x.Index], x)
	}
	for _, x := range by {
		x.finish()
		w.Indices = append(w.Indices, *x)
	}
	slices.SortFunc(w.Indices, func(a, b IndexWork) int { return cmp.Compare(a.Index, b.Index) })
	w.Total.finish()
	w.finish()
	return w
}

func (w *Work) add(of *IndexWork, x Item) {
	of.add(x)
	w.Total.add(x)
	if x.Acquired != nil && (w.First == nil || x.Acquired.Before(*w.First)) {
		w.First = x.Acquired
	}
	if x.Completed != nil && (w.Last == nil || x.Completed.After(*w.Last)) {
		w.Last = x.Completed
	}
	if d := x.lease(); d > 0 {
		w.durations = append(w.durations, d)
		w.setups = append(w.setups, seconds(x.Setup))
	}
}

func (w *IndexWork) add(x Item) {
	w.Items++
	w.Sums.add(x.Sums)
	if !x.ended() {
		return
	}
	w.Ended++
	if x.State == Failed {
		w.GivenUp++
	}
	if d := x.lease(); d > 0 {
		w.Seconds += d.Seconds()
		w.Setup += x.Setup
		w.timedDocs += x.Indexed + x.Kept + x.Failed
		w.timedBytes += x.Bytes
	}
}

func (w *IndexWork) finish() {
	if w.Seconds > 0 {
		w.Rate, w.ByteRate = float64(w.timedDocs)/w.Seconds, float64(w.timedBytes)/w.Seconds
	}
}

func (w *Work) finish() {
	if len(w.durations) == 0 {
		return
	}
	slices.Sort(w.setups)
	slices.Sort(w.durations)
	w.SetupShare = w.Total.Setup / w.Total.Seconds
	w.SetupP50, w.SetupP90 = percentile(w.setups, 50).Seconds(), percentile(w.setups, 90).Seconds()
	w.DurationP50, w.DurationP90 = percentile(w.durations, 50).Seconds(), percentile(w.durations, 90).Seconds()
	w.SuggestedLease = fmt.Sprintf("%dm", suggestLease(percentile(w.setups, 90), percentile(w.durations, 90))/time.Minute)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// percentile returns a percentile of a sorted, non-empty slice, by the nearest rank.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// suggestLease returns whole minutes between 1 min and 6 h.
func suggestLease(setup, work time.Duration) time.Duration {
	d := max(20*setup, min(work*4/3, time.Hour))
	d = (d + time.Minute - 1).Truncate(time.Minute)
	return min(max(d, time.Minute), timing.DefaultMaxLease)
}
