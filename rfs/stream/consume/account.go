package consume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Account is the progress of a session, derived from its store only.
type Account struct {
	Began      bool        `json:"began"`
	Topic      string      `json:"topic"`
	Group      string      `json:"group"`
	Counts     cms.Counts  `json:"counts"` // of all messages below the watermarks
	Lag        int64       `json:"lag"`    // offsets between the watermarks and the ends, at the leader's last check
	GivenUp    int         `json:"given_up"`
	Partitions []Partition `json:"partitions"`
	Plan       Plan        `json:"plan"`
}

// Partition is one partition.
type Partition struct {
	cms.Item  `json:"-"`
	Number    int    `json:"partition"`
	Node      string `json:"node,omitempty"` // node to which it is assigned
	Begin     int64  `json:"begin"`          // offset at which the session started
	Watermark int64  `json:"watermark"`      // every message below is in the target, or recorded as failed
	End       int64  `json:"end"`            // of the partition, at the leader's last check
	Lag       int64  `json:"lag"`
}

// Stored is the data of a store about the stream of a session.
type Stored struct {
	Records []cms.Record // the state, then the plan; empty before the session has started
	Items   []cms.Item
}

// ReadStored reads the data of a session's store about its stream.
func ReadStored(ctx context.Context, c *cms.Coordinator) (s Stored, err error) {
	for _, id := range []string{stateID, planID} {
		r, err := c.Store().Record(ctx, id)
		switch {
		case errors.Is(err, cms.ErrNotFound):
		case err != nil:
			return s, fmt.Errorf("%s: %w", id, err)
		default:
			s.Records = append(s.Records, r)
		}
		if len(s.Records) == 0 {
			return s, nil
		}
	}
	if c.Kind() != Kind {
		if c, err = c.OfKind(ctx, Kind); err != nil {
			return s, err
		}
	}
	for it, err := range c.Items(ctx) {
		if err != nil {
			return s, err
		}
		s.Items = append(s.Items, it)
	}
	return s, nil
}

// Busy returns a *cms.NoneAvailable with the holder of an unexpired lease in the stream of a session, nil if it has none.
func Busy(ctx context.Context, c *cms.Coordinator) error {
	is, err := readState(ctx, c.Store())
	if err != nil || is == nil {
		return err
	}
	if c.Kind() != Kind {
		if c, err = c.OfKind(ctx, Kind); err != nil {
			return err
		}
	}
	return session.HeldOf(c).Busy(ctx)
}

// Read returns the account of the stream of a session; an empty one if it consumes none.
func Read(ctx context.Context, c *cms.Coordinator) (Account, error) {
	s, err := ReadStored(ctx, c)
	if err != nil {
		return Account{}, err
	}
	return s.Account()
}

// Account returns the account of a store, or an empty one if the session consumes no stream. It is a pure function.
func (s Stored) Account() (a Account, err error) {
	var is *state
	for _, r := range s.Records {
		switch r.ID {
		case stateID:
			if is, err = decodeState(r); err != nil {
				return a, err
			}
		case planID:
			if a.Plan, err = decodePlan(r); err != nil {
				return a, err
			}
		}
	}
	if is == nil {
		return Account{}, nil
	}
	a.Began, a.Topic, a.Group, a.Partitions = true, is.Topic, is.Group, []Partition{}
	of := map[int]string{}
	for _, n := range a.Plan.Nodes {
		for _, p := range n.Partitions {
			of[p] = cmp.Or(n.Name, n.Token)
		}
	}
	for _, it := range s.Items {
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
