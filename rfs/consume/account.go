package consume

import (
	"cmp"
	"context"
	"slices"

	"github.com/rfsd/rfsd/rfs/cms"
)

// Account is how far a session is, from nothing but its store.
type Account struct {
	Began      bool        `json:"began"`
	Topic      string      `json:"topic"`
	Group      string      `json:"group"`
	Counts     cms.Counts  `json:"counts"` // of all messages below the watermarks
	Lag        int64       `json:"lag"`    // offsets between the watermarks and the ends, when the leader looked last
	GivenUp    int         `json:"given_up"`
	Partitions []Partition `json:"partitions"`
	Plan       Plan        `json:"plan"`
}

// Partition is one partition.
type Partition struct {
	cms.Item  `json:"-"`
	Number    int    `json:"partition"`
	Node      string `json:"node,omitempty"` // to which it is assigned
	Begin     int64  `json:"begin"`          // where the session began
	Watermark int64  `json:"watermark"`      // every message below is in the target, or recorded as failed
	End       int64  `json:"end"`            // of the partition, when the leader looked last
	Lag       int64  `json:"lag"`
}

// Read returns the account of the stream of a session; an empty one when it consumes none.
func Read(ctx context.Context, c *cms.Coordinator) (Account, error) {
	s, err := readState(ctx, c.Store())
	if err != nil || s == nil {
		return Account{}, err
	}
	if c.Kind() != Kind {
		if c, err = c.OfKind(ctx, Kind); err != nil {
			return Account{}, err
		}
	}
	a := Account{Began: true, Topic: s.Topic, Group: s.Group, Partitions: []Partition{}}
	if a.Plan, err = readPlan(ctx, c.Store()); err != nil {
		return a, err
	}
	of := map[int]string{}
	for _, n := range a.Plan.Nodes {
		for _, p := range n.Partitions {
			of[p] = cmp.Or(n.Name, n.Token)
		}
	}
	for it, err := range c.Items(ctx) {
		if err != nil {
			return a, err
		}
		id, err := it.Range()
		if err != nil {
			return a, err
		}
		p := Partition{Item: it, Number: id.Shard, Node: of[id.Shard], Begin: id.Cursor, Watermark: it.Begin()}
		if p.End = p.Watermark; id.Shard < len(a.Plan.Ends) {
			p.End = max(p.End, a.Plan.Ends[id.Shard])
		}
		p.Lag = p.End - p.Watermark
		a.Counts, a.Lag = a.Counts.Add(it.Counts), a.Lag+p.Lag
		if it.FailedItem() {
			a.GivenUp++
		}
		a.Partitions = append(a.Partitions, p)
	}
	slices.SortFunc(a.Partitions, func(x, y Partition) int { return cmp.Compare(x.Number, y.Number) })
	return a, nil
}

// reached reports whether every partition is consumed up to an end, or given up.
func (a Account) reached(ends []int64) bool {
	if len(a.Partitions) < len(ends) {
		return false
	}
	for _, p := range a.Partitions {
		if p.Number < len(ends) && p.Watermark < ends[p.Number] && !p.FailedItem() {
			return false
		}
	}
	return true
}
