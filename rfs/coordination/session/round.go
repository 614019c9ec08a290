package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	kindRounds = "rounds"
	// mostRounds limits the rounds that a session lists.
	mostRounds = 100
)

// Round is the transfer of one snapshot of a followed cluster to the target. Round 0 is the migration of the first snapshot.
type Round struct {
	Number   int    `json:"number"`
	Snapshot string `json:"snapshot"`           // "": the round creates it, and it has not arrived
	Identity string `json:"identity,omitempty"` // distinguishes the snapshot from others of its name; "": it has not arrived
	Made     bool   `json:"made,omitempty"`     // the round creates its snapshot
	// Whole states that the round sends its whole snapshot to new target indices, because the former snapshot is gone.
	Whole bool `json:"whole,omitempty"`
	// Group are patterns of the indices in a round for a cut-over of these alone; none: all followed indices.
	Group   []string `json:"group,omitempty"`
	Started int64    `json:"started"`           // epoch ms by the store's clock
	Arrived int64    `json:"arrived,omitempty"` // epoch ms by the store's clock; 0: it has not arrived completely, and if it is not the last round, it was replaced
	Account
}

// Account counts the documents that a round found and sent.
type Account struct {
	Inserted  int64 `json:"inserted"`
	Updated   int64 `json:"updated"`
	Deleted   int64 `json:"deleted"`
	Unchanged int64 `json:"unchanged"`
	Failed    int64 `json:"failed"`
	Bytes     int64 `json:"bytes"` // of the sources that were sent
	// Vanished counts indices that only the former snapshot has.
	Vanished int `json:"vanished,omitempty"`
}

// Rounds keeps the rounds of a followed cluster, in the records of the session that migrated its first snapshot.
type Rounds records

// RoundsOf returns the rounds that follow the session whose items c leases.
func RoundsOf(c *cms.Coordinator) Rounds { return Rounds(of(c)) }

// Followed is a followed cluster.
type Followed struct {
	Rounds   []Round `json:"rounds"`             // the last ones, in order; none before the first one started
	Finished int64   `json:"finished,omitempty"` // epoch ms by the store's clock; 0: still followed
	// Ended are the indices of the source whose following has ended, sorted by name: they were cut over, or the operator gave them up.
	Ended []Ended `json:"ended,omitempty"`
	// Failures counts the failed attempts at rounds and cut-overs since a round last arrived, and Failure is the reason of the last one.
	Failures int    `json:"failures,omitempty"`
	Failure  string `json:"failure,omitempty"`
	// FailedBefore counts the failed documents of rounds that have left the list.
	FailedBefore int64 `json:"failed_before,omitempty"`
}

// Ended is an index whose following has ended.
type Ended struct {
	Index string `json:"index"`
	After int    `json:"after"` // the last round that may contain it
	// Moved states that it was cut over; otherwise the operator gave it up.
	Moved bool `json:"moved,omitempty"`
}

// EndedBefore returns the sorted names of the indices that a round no longer contains.
func (f Followed) EndedBefore(round int) (names []string) {
	for _, m := range f.Ended {
		if m.After < round {
			names = append(names, m.Index)
		}
	}
	return names
}

// MovedBefore returns the names among EndedBefore of indices that were cut over.
func (f Followed) MovedBefore(round int) (names []string) {
	for _, m := range f.Ended {
		if m.Moved && m.After < round {
			names = append(names, m.Index)
		}
	}
	return names
}

// Bases returns the rounds with which the round at index at of Rounds is compared: a former round and, for the indices of later partial
// rounds, these, the last one first. An index beyond the last round means a round of all indices. Former rounds that have not arrived were
// replaced, and do not count. ok is false without a former round.
func (f Followed) Bases(at int) (base Round, parts []Round, ok bool) {
	var group []string
	if at < len(f.Rounds) {
		group = f.Rounds[at].Group
	}
	for _, r := range slices.Backward(f.Rounds[:at]) {
		switch {
		case r.Arrived == 0:
		case len(r.Group) == 0 || slices.Equal(r.Group, group):
			return r, parts, true
		case !slices.ContainsFunc(parts, func(p Round) bool { return slices.Equal(p.Group, r.Group) }):
			parts = append(parts, r)
		}
	}
	return Round{}, nil, false
}

// StartedOver returns the number of the last round that has sent its whole snapshot in place of what former rounds had sent; 0 for none.
func (f Followed) StartedOver() int {
	for _, r := range slices.Backward(f.Rounds) {
		if r.Whole && r.Arrived != 0 {
			return r.Number
		}
	}
	return 0
}

// Failed returns the number of documents that failed in all rounds, since the last round that started over.
func (f Followed) Failed() int64 {
	n, over := f.FailedBefore, f.StartedOver()
	if over > 0 {
		n = 0
	}
	for _, r := range f.Rounds {
		if r.Number >= over {
			n += r.Failed
		}
	}
	return n
}

// Last returns the last round; ok is false if none has started.
func (f Followed) Last() (last Round, ok bool) {
	if len(f.Rounds) == 0 {
		return Round{}, false
	}
	return f.Rounds[len(f.Rounds)-1], true
}

// Arrived returns the last round that has arrived; ok is false if none has.
func (f Followed) Arrived() (last Round, ok bool) {
	for _, r := range slices.Backward(f.Rounds) {
		if r.Arrived != 0 {
			return r, true
		}
	}
	return Round{}, false
}

// Lag returns how far the target is behind the source: the age of the last snapshot that arrived. ok is false before one has arrived, and
// after following has finished.
func (f Followed) Lag(now time.Time) (lag time.Duration, ok bool) {
	last, ok := f.Arrived()
	if !ok || f.Finished != 0 {
		return 0, false
	}
	return max(now.Sub(time.UnixMilli(last.Started)), 0), true
}

// Read returns the rounds.
func (s Rounds) Read(ctx context.Context) (Followed, error) {
	r, err := s.leases.Record(ctx, kindRounds)
	if errors.Is(err, cms.ErrNotFound) {
		return Followed{}, nil
	}
	if err != nil {
		return Followed{}, fmt.Errorf("rounds: %w", err)
	}
	return decodeRounds(r)
}

func decodeRounds(r cms.Record) (Followed, error) {
	var f Followed
	if err := r.Decode(&f); err != nil {
		return f, fmt.Errorf("rounds: %w", err)
	}
	for i, x := range f.Rounds {
		if i > 0 && x.Number != f.Rounds[i-1].Number+1 || x.Number < 0 {
			return f, fmt.Errorf("rounds: number %d after %d rounds: %w", x.Number, i, fault.ErrCorrupt)
		}
		if len(x.Group) > maxPatterns {
			return f, fmt.Errorf("rounds: %d patterns of indices in round %d, more than %d: %w", len(x.Group), x.Number, maxPatterns, fault.ErrCorrupt)
		}
	}
	return f, nil
}

// ErrFinished means that rfsd follow --finish has ended following.
var ErrFinished = fmt.Errorf("the following of this cluster was finished: start a new session (--session-name): %w", fault.ErrConfig)

// CheckEnded returns a fault.ErrConfig for a session that is followed: its records name the snapshot that the next round is compared with.
// A session that is being undone has no next round.
func (s Rounds) CheckEnded(ctx context.Context) error {
	if err := Identity(s).CheckUndone(ctx); err != nil {
		if errors.Is(err, ErrUndone) {
			return nil
		}
		return err
	}
	all, err := s.Read(ctx)
	if last, started := all.Last(); err == nil && started && all.Finished == 0 {
		err = fmt.Errorf("the session is followed (its last round is round %d), and no round can continue without its records: end the following first (rfsctl cutover, or rfsd follow --finish): %w", last.Number, fault.ErrConfig)
	}
	return err
}

const kindChain = "chain"

// chain is the chain of rounds of a session.
type chain struct {
	Root string `json:"root"` // mark of the session of round 0
}

// Join records that this session is a later round of the session with a mark, and reports whether it is: it may be of another one already.
func (s Rounds) Join(ctx context.Context, mark string) (joined bool, err error) {
	decode := func(r cms.Record) (is chain, err error) {
		err = r.Decode(&is)
		return is, err
	}
	is, err := change(ctx, s.leases, kindChain, decode, func(is *chain, _ time.Time) (bool, error) {
		if is.Root != "" {
			return false, nil
		}
		is.Root = mark
		return true, nil
	})
	if err != nil {
		return false, fmt.Errorf("rounds: %w", err)
	}
	return is.Root == mark, nil
}

// stateFollowed is the state of the session's meta record from the first round that sends changes.
const stateFollowed = "FOLLOWED"

// ErrFollowed means that later snapshots have changed what the session sent.
var ErrFollowed = fmt.Errorf("later snapshots have changed the documents of this session, which this command would bring back: run rfsd follow, or rfsd run --follow, with the same options: %w", fault.ErrConfig)

// Start records the next round unless the last one has not arrived, and returns the rounds. Of several processes that start a round at the
// same time one succeeds. It returns ErrFinished after Finish.
func (s Rounds) Start(ctx context.Context, next Round) (Followed, error) {
	if next.Number > 0 {
		_, err := s.leases.Update(ctx, kindMeta, kindMeta, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
			if r.State != "" || len(r.Body) == 0 {
				return r, cms.Already
			}
			r.State = stateFollowed
			return r, cms.Applied
		})
		if err != nil {
			return Followed{}, fmt.Errorf("rounds: %w", err)
		}
	}
	return s.change(ctx, func(f *Followed, now time.Time) (bool, error) {
		last, any := f.Last()
		switch {
		case f.Finished != 0:
			return false, ErrFinished
		case any && (last.Arrived == 0 || last.Number >= next.Number):
			return false, nil
		}
		f.add(next, now)
		return true, nil
	})
}

// add adds a round that starts now.
func (f *Followed) add(r Round, now time.Time) {
	r.Started, r.Made = now.UnixMilli(), r.Snapshot == ""
	f.Rounds = append(f.Rounds, r)
}

// Replace records a round of a whole snapshot in place of the last one, was, unless that has arrived or was replaced, and returns the rounds.
// It keeps the name of the snapshot that was has made. It returns ErrFinished after Finish.
func (s Rounds) Replace(ctx context.Context, was Round, snapshot string) (Followed, error) {
	return s.change(ctx, func(f *Followed, now time.Time) (bool, error) {
		last, _ := f.Last()
		switch {
		case f.Finished != 0:
			return false, ErrFinished
		case last.Number != was.Number || last.Arrived != 0:
			return false, nil
		}
		f.Rounds[len(f.Rounds)-1].Snapshot = was.Snapshot
		f.Failures, f.Failure = 0, ""
		f.add(Round{Number: was.Number + 1, Snapshot: snapshot, Whole: true}, now)
		return true, nil
	})
}

// Arrive records that a round has arrived completely, and reports whether this call recorded it: another process that shares the round may
// have done so, and may have started the next one.
func (s Rounds) Arrive(ctx context.Context, done Round) (first bool, err error) {
	_, err = s.change(ctx, func(f *Followed, now time.Time) (bool, error) {
		first = false
		last, any := f.Last()
		switch {
		case !any || last.Number < done.Number:
			return false, fmt.Errorf("round %d is not recorded: %w", done.Number, cms.ErrConflict)
		case last.Number > done.Number || last.Arrived != 0:
			return false, nil
		}
		done.Started, done.Made, done.Whole, done.Group, done.Arrived = last.Started, last.Made, last.Whole, last.Group, now.UnixMilli()
		f.Rounds[len(f.Rounds)-1], first = done, true
		f.Failures, f.Failure = 0, ""
		return true, nil
	})
	return first && err == nil, err
}

// maxFailure limits the reason of a failed attempt, in bytes.
const maxFailure = 1 << 10

// Fail records a failed attempt at a round or at a cut-over. Before the first round it records nothing.
func (s Rounds) Fail(ctx context.Context, reason string) error {
	_, err := s.change(ctx, func(f *Followed, _ time.Time) (bool, error) {
		if len(f.Rounds) == 0 {
			return false, nil
		}
		f.Failures, f.Failure = f.Failures+1, cutText(reason, maxFailure)
		return true, nil
	})
	return err
}

// End records that the following of indices has ended, because they were cut over (moved) or given up. It may be repeated.
func (s Rounds) End(ctx context.Context, indices []string, moved bool) error {
	_, err := s.change(ctx, func(f *Followed, _ time.Time) (bool, error) {
		last, _ := f.Last()
		before := len(f.Ended)
		for _, name := range indices {
			if !slices.ContainsFunc(f.Ended, func(m Ended) bool { return m.Index == name }) {
				f.Ended = append(f.Ended, Ended{Index: name, After: last.Number, Moved: moved})
			}
		}
		slices.SortFunc(f.Ended, func(a, b Ended) int { return strings.Compare(a.Index, b.Index) })
		if len(f.Ended) > maxBlocks {
			return false, fmt.Errorf("%d indices that are not followed any more, more than %d: end the following of the others together (rfsctl cutover, rfsd follow --finish): %w", len(f.Ended), maxBlocks, fault.ErrConfig)
		}
		return len(f.Ended) > before, nil
	})
	return err
}

// Finish records the end of following.
func (s Rounds) Finish(ctx context.Context) error {
	_, err := s.change(ctx, func(f *Followed, now time.Time) (bool, error) {
		if f.Finished != 0 {
			return false, nil
		}
		f.Finished = now.UnixMilli()
		return true, nil
	})
	return err
}

// change applies f, which reports a change, to the rounds and returns them.
func (s Rounds) change(ctx context.Context, f func(all *Followed, now time.Time) (bool, error)) (Followed, error) {
	return change(ctx, s.leases, kindRounds, decodeRounds, func(all *Followed, now time.Time) (bool, error) {
		changed, err := f(all, now)
		for ; len(all.Rounds) > mostRounds; all.Rounds = all.Rounds[1:] {
			if all.Rounds[0].Whole {
				all.FailedBefore = 0
			}
			all.FailedBefore += all.Rounds[0].Failed
		}
		return changed, err
	})
}

// change applies f, which reports a change, to the only record of a kind and returns its content.
func change[T any](ctx context.Context, l *cms.Leases, kind string, decode func(cms.Record) (T, error), f func(is *T, now time.Time) (bool, error)) (is T, err error) {
	var failed error
	_, err = l.Update(ctx, kind, kind, func(r cms.Record, now time.Time) (cms.Record, cms.Result) {
		var none T
		is, failed = none, nil
		if len(r.Body) > 0 {
			if is, failed = decode(r); failed != nil {
				return r, cms.Lost
			}
		}
		var changed bool
		if changed, failed = f(&is, now); failed != nil {
			return r, cms.Lost
		}
		if !changed {
			return r, cms.Already
		}
		if r.Body, failed = json.Marshal(is); failed != nil {
			return r, cms.Lost
		}
		return r, cms.Applied
	})
	return is, errors.Join(err, failed)
}
