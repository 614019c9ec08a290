package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	kindCutover = "cutover"
	// maxBlocks limits the indices of a source on which a session sets write blocks.
	maxBlocks = 20_000
)

// CutoverState is the step that a cut-over has reached.
type CutoverState string

// The states, in order. A cut-over can return only from the first two.
const (
	CutoverOrdered   CutoverState = "ORDERED"   // rounds run until one is short
	CutoverBlocked   CutoverState = "BLOCKED"   // writes to the source have ended
	CutoverFinishing CutoverState = "FINISHING" // everything has arrived; settings of the target are restored
	CutoverDone      CutoverState = "DONE"
	CutoverReturning CutoverState = "RETURNING" // the write blocks of the session are removed from the source
	CutoverReturned  CutoverState = "RETURNED"  // following continues
)

// CutoverOptions are the choices of an order.
type CutoverOptions struct {
	Block        bool  `json:"block_source_writes"`
	MaxOutage    int64 `json:"max_outage_ms"` // limit of the outage, from the end of writes; then the cut-over returns
	AcceptFailed bool  `json:"accept_failed"` // documents that failed in a round do not prevent the cut-over
	// Indices are patterns of the source's indices to cut over; none: all, which ends following.
	Indices []string `json:"indices,omitempty"`
}

// maxPatterns limits the patterns of an order.
const maxPatterns = 1000

// Cutover is an order to stop following once the target has everything that the source has. Times are epoch ms by the store's clock; 0: not
// yet.
type Cutover struct {
	State CutoverState `json:"state"` // "": none was ordered
	CutoverOptions
	Who      string   `json:"who"`
	Ordered  int64    `json:"ordered"`
	Blocked  int64    `json:"blocked,omitempty"` // start of the outage
	Arrived  int64    `json:"arrived,omitempty"` // when everything had arrived, compared with the source
	Ended    int64    `json:"ended,omitempty"`
	Round    int      `json:"round,omitempty"` // the last one
	Snapshot string   `json:"snapshot,omitempty"`
	Source   string   `json:"source,omitempty"` // UUID of the cluster with the write blocks; "": unknown
	Blocks   []string `json:"blocks,omitempty"` // indices of the source on which the session sets, or has set, a write block
	Moved    []string `json:"moved,omitempty"`  // indices of the source that were cut over
	Reason   string   `json:"reason,omitempty"` // why it returned
	Note     string   `json:"note,omitempty"`   // what could not be compared
}

// Open reports whether the cut-over has to be carried out, or returned from.
func (c Cutover) Open() bool {
	return c.State != "" && c.State != CutoverDone && c.State != CutoverReturned
}

// Returns reports whether the cut-over can still be withdrawn.
func (c Cutover) Returns() bool { return c.State == CutoverOrdered || c.State == CutoverBlocked }

// Started reports whether the cut-over is open and its outage has started. It is carried on while the fleet is paused: without its return
// writes would stay blocked, and without its end the target would keep the settings of the following.
func (c Cutover) Started() bool { return c.Open() && c.State != CutoverOrdered }

// Outage returns how long no client could write: until everything had arrived, or until the blocks were removed. It is 0 before that.
func (c Cutover) Outage() time.Duration {
	end := c.Arrived
	if c.State == CutoverReturned {
		end = c.Ended
	}
	if c.Blocked == 0 || end == 0 {
		return 0
	}
	return time.Duration(max(end-c.Blocked, 0)) * time.Millisecond
}

// Cutovers keeps the order to cut over, in the records of the session that migrated the first snapshot.
type Cutovers records

// CutoversOf returns the cut-overs of the session whose items c leases.
func CutoversOf(c *cms.Coordinator) Cutovers { return Cutovers(of(c)) }

// Read returns the last order, with State "" before the first one. For an open order it also returns the time of the store's clock.
func (s Cutovers) Read(ctx context.Context) (c Cutover, now time.Time, err error) {
	r, err := s.leases.Record(ctx, kindCutover)
	if errors.Is(err, cms.ErrNotFound) {
		return c, now, nil
	}
	if err == nil {
		c, err = decodeCutover(r)
	}
	if err != nil {
		return c, now, fmt.Errorf("cut-over: %w", err)
	}
	if c.Open() {
		now, _, err = s.leases.Now(ctx)
	}
	return c, now, err
}

func decodeCutover(r cms.Record) (c Cutover, err error) {
	if err := r.Decode(&c); err != nil {
		return c, err
	}
	if n := max(len(c.Blocks), len(c.Moved)); n > maxBlocks || len(c.Indices) > maxPatterns {
		return c, fmt.Errorf("%d indices, and %d patterns of indices: more than %d and %d: %w", n, len(c.Indices), maxBlocks, maxPatterns, fault.ErrCorrupt)
	}
	return c, nil
}

// Order orders a cut-over. It returns fault.ErrConfig when one is in progress or done, or when nothing is followed.
func (s Cutovers) Order(ctx context.Context, options CutoverOptions, who string) (Cutover, error) {
	rounds, err := Rounds(s).Read(ctx)
	if err != nil {
		return Cutover{}, err
	}
	switch _, started := rounds.Last(); {
	case !started:
		return Cutover{}, fmt.Errorf("no round of this session has started: run rfsd follow, or rfsd run --follow, first: %w", fault.ErrConfig)
	case rounds.Finished != 0:
		return Cutover{}, ErrFinished
	case len(options.Indices) > maxPatterns:
		return Cutover{}, fmt.Errorf("%d patterns of indices, more than %d: %w", len(options.Indices), maxPatterns, fault.ErrConfig)
	}
	if err := Identity(s).CheckUndone(ctx); err != nil {
		return Cutover{}, err
	}
	return s.change(ctx, func(c *Cutover, now time.Time) (bool, error) {
		if c.Open() {
			next := "rfsctl status shows how far it is"
			if c.Returns() {
				next += ", and rfsctl cutover --abort withdraws it"
			}
			return false, fmt.Errorf("a cut-over by %s is %s already; this order was not stored: %s: %w", c.Who, c.State, next, fault.ErrConfig)
		}
		ordered := max(now.UnixMilli(), c.Ordered+1) // it identifies the order
		*c = Cutover{State: CutoverOrdered, CutoverOptions: options, Who: strings.ToValidUTF8(who[:min(len(who), maxIssuer)], ""), Ordered: ordered}
		return true, nil
	})
}

// CheckEnded returns a fault.ErrConfig for a cut-over that has not ended: it may have left write blocks on the source.
func (s Cutovers) CheckEnded(ctx context.Context) error {
	c, _, err := s.Read(ctx)
	if err != nil || !c.Open() {
		return err
	}
	next := "end it first (rfsd follow, or rfsd run --follow, with the options of the session)"
	if c.Returns() {
		next += ", or return from it (rfsctl cutover --abort)"
	}
	return fmt.Errorf("a cut-over by %s is %s; %s: %w", c.Who, c.State, next, fault.ErrConfig)
}

// ErrTooLate means that a cut-over can no longer return.
var ErrTooLate = fmt.Errorf("too late: everything has arrived, and the cut-over only completes; rfsctl status shows it: %w", fault.ErrConfig)

// ErrNotOrdered means that no cut-over was ordered.
var ErrNotOrdered = fmt.Errorf("no cut-over was ordered: %w", fault.ErrConfig)

// Return orders a cut-over to return. If it has returned, or is returning, nothing changes. It returns ErrTooLate, or ErrNotOrdered.
func (s Cutovers) Return(ctx context.Context, reason string) (Cutover, error) {
	return s.change(ctx, func(c *Cutover, now time.Time) (bool, error) {
		switch c.State {
		case CutoverOrdered, CutoverBlocked:
		case CutoverReturning, CutoverReturned:
			return false, nil
		case "":
			return false, ErrNotOrdered
		default:
			return false, ErrTooLate
		}
		c.Reason = reason
		if c.State, c.Ended = CutoverReturning, now.UnixMilli(); len(c.Blocks) == 0 {
			c.State = CutoverReturned
		}
		return true, nil
	})
}

// ErrCutoverMoved means that another process, or the operator, has changed the state of a cut-over.
var ErrCutoverMoved = errors.New("the cut-over was moved on by another process, or by the operator")

// Move changes the cut-over from, unless its state has changed since it was read or another one was ordered: then it returns
// ErrCutoverMoved.
func (s Cutovers) Move(ctx context.Context, from Cutover, f func(c *Cutover, now int64)) (Cutover, error) {
	return s.change(ctx, func(c *Cutover, now time.Time) (bool, error) {
		switch {
		case c.State != from.State:
			return false, fmt.Errorf("%w: it is %s, not %s", ErrCutoverMoved, c.State, from.State)
		case c.Ordered != from.Ordered:
			return false, fmt.Errorf("%w: another one was ordered", ErrCutoverMoved)
		}
		f(c, now.UnixMilli())
		slices.Sort(c.Blocks)
		c.Blocks = slices.Compact(c.Blocks)
		if n := max(len(c.Blocks), len(c.Moved)); n > maxBlocks {
			return false, fmt.Errorf("%d indices to cut over, more than %d: block them on the source, and leave out --block-source-writes, or cut over in smaller groups: %w", n, maxBlocks, fault.ErrConfig)
		}
		return true, nil
	})
}

func (s Cutovers) change(ctx context.Context, f func(c *Cutover, now time.Time) (bool, error)) (Cutover, error) {
	return change(ctx, s.leases, kindCutover, decodeCutover, f)
}
