package progress

import (
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Following is a followed cluster for display.
type Following struct {
	Rounds   []Round         `json:"rounds"`             // the last ones, in order
	Finished *time.Time      `json:"finished,omitempty"` // absent while it is followed
	Ended    []session.Ended `json:"ended,omitempty"`    // indices of the source whose following has ended
	Failed   int64           `json:"failed"`             // documents of all rounds, since the last round that started over
	// Failures counts the failed attempts at rounds and cut-overs since a round last arrived, and Failure is the reason of the last one.
	Failures int    `json:"failures,omitempty"`
	Failure  string `json:"failure,omitempty"`
}

// Round is a session.Round with times of the store's clock.
type Round struct {
	Number   int        `json:"number"`
	Snapshot string     `json:"snapshot"`        // "": the round creates it, and it has not arrived
	Whole    bool       `json:"whole,omitempty"` // it sends its whole snapshot, because the former one is gone
	Started  time.Time  `json:"started"`
	Arrived  *time.Time `json:"arrived,omitempty"`  // absent: it has not arrived completely
	Replaced bool       `json:"replaced,omitempty"` // it could not continue, and the next round started over in its place
	session.Account
}

// following returns f for display; nil when no cluster is followed.
func following(f session.Followed) *Following {
	if len(f.Rounds) == 0 {
		return nil
	}
	shown := &Following{Finished: instant(f.Finished), Ended: f.Ended, Failed: f.Failed(), Failures: max(f.Failures, 0), Failure: f.Failure}
	for i, r := range f.Rounds {
		shown.Rounds = append(shown.Rounds, Round{
			Number: r.Number, Snapshot: r.Snapshot, Whole: r.Whole, Started: Time(r.Started), Arrived: instant(r.Arrived), Account: r.Account,
			Replaced: r.Arrived == 0 && i < len(f.Rounds)-1,
		})
	}
	return shown
}

// LastArrived returns the last round that has arrived; ok is false before the first one.
func (f *Following) LastArrived() (last Round, ok bool) {
	for _, r := range slices.Backward(f.Rounds) {
		if r.Arrived != nil {
			return r, true
		}
	}
	return Round{}, false
}

// Took returns the time between the start and the arrival of a round; 0 before it has arrived.
func (r Round) Took() time.Duration {
	if r.Arrived == nil {
		return 0
	}
	return max(r.Arrived.Sub(r.Started), 0)
}

// Cutover is a session.Cutover with times of the store's clock; a time is absent before its event.
type Cutover struct {
	State         session.CutoverState `json:"state"` // "": nothing was ordered
	Block         bool                 `json:"block_source_writes"`
	MaxOutage     float64              `json:"max_outage_seconds"`
	AcceptFailed  bool                 `json:"accept_failed"`
	Indices       []string             `json:"indices,omitempty"` // the chosen ones
	Who           string               `json:"ordered_by"`
	Ordered       *time.Time           `json:"ordered,omitempty"`
	Blocked       *time.Time           `json:"blocked,omitempty"` // when writes ended
	Arrived       *time.Time           `json:"arrived,omitempty"`
	Ended         *time.Time           `json:"ended,omitempty"`
	OutageSeconds float64              `json:"outage_seconds"`
	Round         int                  `json:"round,omitempty"` // the last one
	Snapshot      string               `json:"snapshot,omitempty"`
	Blocks        []string             `json:"blocks,omitempty"` // indices of the source with a write block of the session
	Moved         []string             `json:"moved,omitempty"`
	Reason        string               `json:"reason,omitempty"` // why it returned
	Note          string               `json:"note,omitempty"`
}

// FailedLater returns how many documents failed first in rounds after the first one, by round, since the last round that started over.
func (m *Migration) FailedLater() map[int]int64 {
	of := map[int]int64{}
	if m.Rounds == nil {
		return of
	}
	for _, r := range m.Rounds.Rounds {
		if r.Whole && r.Arrived != nil {
			clear(of)
		}
		if r.Number > 0 && r.Failed > 0 {
			of[r.Number] = r.Failed
		}
	}
	return of
}

// CutoverOf returns the view of a cut-over.
func CutoverOf(c session.Cutover) Cutover {
	return Cutover{
		State: c.State, Block: c.Block, MaxOutage: float64(c.MaxOutage) / 1000, AcceptFailed: c.AcceptFailed, Indices: c.Indices, Who: c.Who,
		Ordered: instant(c.Ordered), Blocked: instant(c.Blocked), Arrived: instant(c.Arrived), Ended: instant(c.Ended), OutageSeconds: c.Outage().Seconds(),
		Round: c.Round, Snapshot: c.Snapshot, Blocks: c.Blocks, Moved: c.Moved, Reason: c.Reason, Note: c.Note,
	}
}
