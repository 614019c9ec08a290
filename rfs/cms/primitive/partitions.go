package primitive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
)

// States of a partition. One that is outstanding and held is in progress.
const (
	Outstanding = "outstanding"
	Finished    = "done"
	Failed      = "failed"
	Cancelled   = "cancelled"
)

// ErrCancelled says that somebody cancelled the task; its holder stops.
var ErrCancelled = errors.New("task was cancelled")

const kindPart = "part"

// Partitions is a set of serialized tasks, each under a lock of its own.
type Partitions struct {
	Locks *Locks
	// Prefix begins the id of every task of the set, so that tasks of several kinds can be kept
	// in one store; ids are given and taken without it.
	Prefix string
}

// name is the id of a task's record.
func (p *Partitions) name(id string) string { return kindPart + ":" + p.Prefix + id }

// records yields the records of the set in order of ids.
func (p *Partitions) records(ctx context.Context) iter.Seq2[cms.Record, error] {
	return func(yield func(cms.Record, error) bool) {
		for r, err := range p.Locks.Store.List(ctx, kindPart) {
			if err == nil && !strings.HasPrefix(r.ID, p.name("")) {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// Status is what is known of a partition.
type Status struct {
	ID       string
	State    string
	Holder   string
	Expire   time.Time // zero when it is free
	Attempts int
	Task     []byte          // as it was added
	Progress json.RawMessage // what its holder reported last
	Error    string

	record cms.Record
}

type partBody struct {
	Task     []byte          `json:"task"` // base64 in JSON
	Progress json.RawMessage `json:"progress,omitempty"`
}

// Add stores a task; one that exists already is left alone.
func (p *Partitions) Add(ctx context.Context, id string, task []byte) error {
	body, err := json.Marshal(partBody{Task: task})
	if err != nil {
		return fmt.Errorf("partition %s: %w", id, err)
	}
	now, _, err := p.Locks.Store.Now(ctx)
	if err != nil {
		return fmt.Errorf("partition %s: %w", id, err)
	}
	_, err = p.Locks.Store.Put(ctx, cms.Record{ID: p.name(id), Kind: kindPart, State: Outstanding,
		CreatedAt: now.UnixMilli(), UpdatedAt: now.UnixMilli(), Body: body})
	if err != nil && !errors.Is(err, cms.ErrConflict) {
		return fmt.Errorf("partition %s: %w", id, err)
	}
	return nil
}

// List gives the state of every partition in order of ids.
func (p *Partitions) List(ctx context.Context) ([]Status, error) {
	var out []Status
	for r, err := range p.records(ctx) {
		if err != nil {
			return nil, fmt.Errorf("partitions: %w", err)
		}
		s, err := p.statusOf(r)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Get gives the state of one partition. cms.ErrNotFound when there is none.
func (p *Partitions) Get(ctx context.Context, id string) (Status, error) {
	r, err := p.Locks.Store.Record(ctx, p.name(id))
	if err != nil {
		return Status{}, fmt.Errorf("partition %s: %w", id, err)
	}
	return p.statusOf(r)
}

func (p *Partitions) statusOf(r cms.Record) (Status, error) {
	b, err := bodyOf(r)
	s := Status{ID: r.ID[len(p.name("")):], record: r, State: r.State, Holder: r.Holder, Attempts: r.Attempts, Task: b.Task, Progress: b.Progress, Error: r.Error}
	if r.Expire != 0 {
		s.Expire = time.UnixMilli(r.Expire)
	}
	return s, err
}

func bodyOf(r cms.Record) (partBody, error) {
	var b partBody
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return b, fmt.Errorf("record %s: %w: %w", r.ID, err, fault.ErrCorrupt)
	}
	return b, nil
}

// Claim takes the next free outstanding task, or gives nil when there is none. It
// looks from the node's position in the fleet onwards, so that nodes rarely try the
// same, and pauses a random time before it returns one, so that others get theirs.
func (p *Partitions) Claim(ctx context.Context, token string, position, count int, ttl time.Duration) (*Task, error) {
	now, maxErr, err := p.Locks.Store.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	var free []cms.Record
	for r, err := range p.records(ctx) {
		if err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		if r.State == Outstanding && (r.Expire == 0 || r.Expire < now.Add(-maxErr).UnixMilli()) {
			free = append(free, r)
		}
	}
	for i := range free {
		r := free[(position*len(free)/max(count, 1)+i)%len(free)]
		lock, r, err := p.Locks.leases().AcquireListed(ctx, r, cms.Terms{Holder: token, States: []string{Outstanding}, Existing: true, Window: ttl})
		var held *Held
		if errors.As(err, &held) || errors.Is(err, cms.ErrMoved) {
			continue
		}
		if err != nil {
			return nil, err
		}
		body, err := bodyOf(r)
		if err != nil {
			return nil, err
		}
		return &Task{ID: r.ID[len(p.name("")):], Data: body.Task, Attempts: r.Attempts, lock: lock, store: p.Locks.Store, body: body}, p.Locks.Clock.Sleep(ctx, pause(50*time.Millisecond))
	}
	return nil, nil
}

// Cancel asks the holder of a task to stop; a task that ended is left alone.
func (p *Partitions) Cancel(ctx context.Context, id string) error {
	for {
		r, err := p.Locks.Store.Record(ctx, p.name(id))
		if err != nil {
			return fmt.Errorf("cancel %s: %w", id, err)
		}
		if r.State != Outstanding {
			return nil
		}
		r.State = Cancelled
		if _, err = p.Locks.Store.Put(ctx, r); !errors.Is(err, cms.ErrConflict) {
			if err != nil {
				return fmt.Errorf("cancel %s: %w", id, err)
			}
			return nil
		}
	}
}

// Sweep is the leader's loop body: it removes finished tasks and cancelled ones that
// nobody holds, and asks onFailure for each failed one whether it shall be tried again.
func (p *Partitions) Sweep(ctx context.Context, onFailure func(Status) (again bool)) error {
	now, maxErr, err := p.Locks.Store.Now(ctx)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for r, err := range p.records(ctx) {
		if err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		s, err := p.statusOf(r)
		if err != nil {
			return err
		}
		switch {
		case r.State == Finished, r.State == Cancelled && r.Expire < now.Add(-maxErr).UnixMilli():
			err = p.Locks.Store.Delete(ctx, r)
		case r.State == Failed && onFailure(s):
			r.State, r.Expire, r.Error = Outstanding, 0, ""
			_, err = p.Locks.Store.Put(ctx, r)
		}
		if err != nil && !errors.Is(err, cms.ErrConflict) && !errors.Is(err, cms.ErrNotFound) {
			return fmt.Errorf("sweep %s: %w", s.ID, err)
		}
	}
	return nil
}

// Remove deletes a partition as it was listed; one that changed since then, or is gone, is left alone.
func (p *Partitions) Remove(ctx context.Context, s Status) error {
	err := p.Locks.Store.Delete(ctx, s.record)
	if err != nil && !errors.Is(err, cms.ErrConflict) && !errors.Is(err, cms.ErrNotFound) {
		return fmt.Errorf("remove partition %s: %w", s.ID, err)
	}
	return nil
}

// Free gives back an outstanding partition, as it was listed, whose holder is dead for certain, with a last progress
// (nil: as it was reported). One that changed since then is left alone.
func (p *Partitions) Free(ctx context.Context, s Status, progress json.RawMessage) error {
	r := s.record
	if r.State != Outstanding || r.Expire == 0 {
		return nil
	}
	if progress != nil {
		body, err := json.Marshal(partBody{Task: s.Task, Progress: progress})
		if err != nil {
			return fmt.Errorf("free partition %s: %w", s.ID, err)
		}
		r.Body = body
	}
	r.Expire = 0
	_, err := p.Locks.Store.Put(ctx, r)
	if err != nil && !errors.Is(err, cms.ErrConflict) && !errors.Is(err, cms.ErrNotFound) {
		return fmt.Errorf("free partition %s: %w", s.ID, err)
	}
	return nil
}

// Task is a claimed partition. Its holder reports before the claim runs out.
type Task struct {
	ID       string
	Data     []byte // as it was added
	Attempts int    // how often it was claimed, this time included
	lock     *cms.RecordLease
	store    Store
	body     partBody
}

// Progress is what was reported last, by this holder or an earlier one; nil when nothing was.
func (t *Task) Progress() json.RawMessage { return t.body.Progress }

// Holder is the token under which the task was claimed.
func (t *Task) Holder() string { return t.lock.Holder() }

// Left is the time in which the claim may be relied on; see cms.Guard.
func (t *Task) Left() time.Duration { return t.lock.UntilDeadline() }

// Guard gives a context that ends before the claim does; see cms.Guard.
func (t *Task) Guard(ctx context.Context) (context.Context, func()) { return t.lock.Watch(ctx, nil) }

// Report stores the progress and holds the task for another period. ErrCancelled
// when somebody asked for that, a fault.ErrLeaseLost when the task is another's.
func (t *Task) Report(ctx context.Context, progress json.RawMessage) error {
	body := t.body
	body.Progress = progress
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("report %s: %w", t.ID, err)
	}
	if err := t.lock.Change(ctx, cms.HolderChange{Body: raw, While: []string{Outstanding}}); err != nil {
		return t.explain(ctx, err)
	}
	t.body = body
	return nil
}

// Done ends the task.
func (t *Task) Done(ctx context.Context) error { return t.end(ctx, Finished, "", nil) }

// Finish ends the task and stores its last progress in the same update.
func (t *Task) Finish(ctx context.Context, progress json.RawMessage) error {
	return t.end(ctx, Finished, "", progress)
}

// Fail ends the task with a reason; the leader decides what becomes of it.
func (t *Task) Fail(ctx context.Context, reason string) error {
	return t.end(ctx, Failed, reason, nil)
}

// Abandon is Fail with a last progress in the same update.
func (t *Task) Abandon(ctx context.Context, reason string, progress json.RawMessage) error {
	return t.end(ctx, Failed, reason, progress)
}

// Release gives the task back with its progress, for others to take at once.
func (t *Task) Release(ctx context.Context, progress json.RawMessage) error {
	return t.end(ctx, Outstanding, "", progress)
}

// end writes the state; a progress that is nil stays as it was reported.
func (t *Task) end(ctx context.Context, state, reason string, progress json.RawMessage) error {
	change := cms.HolderChange{State: state, While: []string{Outstanding}, Free: true, Error: reason}
	if progress != nil {
		body := t.body
		body.Progress = progress
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("task %s: %w", t.ID, err)
		}
		change.Body = raw
	}
	if err := t.lock.Change(ctx, change); err != nil {
		return t.explain(ctx, fmt.Errorf("task %s: %w", t.ID, err))
	}
	return nil
}

// explain tells a task that was cancelled from one that was lost.
func (t *Task) explain(ctx context.Context, err error) error {
	if !errors.Is(err, fault.ErrLeaseLost) {
		return err
	}
	if r, rerr := t.store.Record(ctx, t.lock.Acquired().ID); rerr == nil && r.State == Cancelled {
		return fmt.Errorf("task %s: %w", t.ID, ErrCancelled)
	}
	return err
}

// pause is a random time up to d.
func pause(d time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(d) + 1)) }
