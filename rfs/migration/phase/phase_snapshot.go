package phase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/source/live"
)

// Snapshots creates, watches and deletes snapshots on the source cluster. Errors have the categories of fault; fault.ErrRejected is permanent.
type Snapshots interface {
	// Register registers the repository on the source, and reports whether it was unknown there. It may be repeated.
	Register(ctx context.Context) (registered bool, err error)
	// Create starts a snapshot without waiting for its end; created is false if the name exists. It returns a live.ErrBusy if another
	// snapshot has to end first.
	Create(ctx context.Context, name string) (created bool, err error)
	// State returns the state of the snapshot on the source; an fs.ErrNotExist if it does not exist.
	State(ctx context.Context, name string) (live.State, error)
	// Delete deletes a snapshot that the session created. A missing one is not an error.
	Delete(ctx context.Context, name string) error
}

// SnapshotOptions select the snapshot to read or create.
type SnapshotOptions struct {
	Name         string // of the snapshot to read, or the derived name of the snapshot to create
	Derived      bool   // the session creates the snapshot; an existing one with the name is never used
	Repository   string // name of the repository on the source
	Retry        bool   // after a failure, create a snapshot with the suffix "-2", and each time the command is run again with the next number
	Renews       bool   // each run of the command replaces a failed snapshot so, also without Retry, and deletes it
	AllowPartial bool
	NoWait       bool // start the snapshot or check it once; ErrSnapshotRuns while it is in progress
	// Poll is the interval at which a running snapshot is polled; 0: 2 s.
	Poll time.Duration
}

// ErrSnapshotRuns means that the source is still creating the snapshot and --snapshot-no-wait was given.
var ErrSnapshotRuns = errors.New("the snapshot is being made on the source: run the same command again later, or without --snapshot-no-wait to wait for it")

func (o SnapshotOptions) wanted() string {
	if o.Retry {
		return o.Name + "-2"
	}
	return o.Name
}

// number returns 1 for the derived name, n for the same with the suffix -n, and 0 for other names.
func (o SnapshotOptions) number(name string) int {
	suffix, is := strings.CutPrefix(name, o.Name)
	if !is || !o.Derived {
		return 0
	}
	if suffix == "" {
		return 1
	}
	digits, is := strings.CutPrefix(suffix, "-")
	if n, err := strconv.Atoi(digits); is && err == nil && n > 1 && digits == strconv.Itoa(n) {
		return n
	}
	return 0
}

// Names reports whether a snapshot that the session creates can have this name.
func (o SnapshotOptions) Names(name string) bool { return o.number(name) > 0 }

func (o SnapshotOptions) poll() time.Duration {
	if o.Poll <= 0 {
		return 2 * time.Second
	}
	return o.Poll
}

// SnapshotRecord is the body of phase:snapshot.
type SnapshotRecord struct {
	Name         string   `json:"name"`
	Repository   string   `json:"repo"`
	UUID         string   `json:"snapshotUUID,omitempty"`
	Anonymous    bool     `json:"anonymous,omitempty"` // the source reports no UUID; UUID holds its start time
	State        string   `json:"sourceState,omitempty"`
	ShardsTotal  int64    `json:"shardsTotal,omitempty"`
	ShardsDone   int64    `json:"shardsDone,omitempty"`
	ShardsFailed int64    `json:"shardsFailed,omitempty"`
	BytesTotal   int64    `json:"bytesTotal,omitempty"`
	BytesDone    int64    `json:"bytesDone,omitempty"`
	Failures     []string `json:"failures,omitempty"`
	Measure
}

// Measure is the progress of a phase in a form common to all phases.
type Measure struct {
	Done  int64  `json:"done"`
	Total int64  `json:"total"` // 0: unknown
	Unit  string `json:"unit"`  // bytes, shards, objects, indices
}

// DecodeSnapshot decodes the body of phase:snapshot. An empty body decodes to the zero record. Errors are fault.ErrCorrupt.
func DecodeSnapshot(b json.RawMessage) (SnapshotRecord, error) {
	var r SnapshotRecord
	if len(b) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("record of the snapshot: %w: %w", err, fault.ErrCorrupt)
	}
	return r, nil
}

func (r SnapshotRecord) encode() json.RawMessage {
	b, err := json.Marshal(r)
	if err != nil { // impossible: strings and numbers only
		return nil
	}
	return b
}

// snapshotIdentity returns an id that distinguishes a snapshot from others of the same name: its UUID or, if anonymous, its start time.
func snapshotIdentity(st live.State) (id string, anonymous bool) {
	if st.UUID != "" {
		return st.UUID, false
	}
	return fmt.Sprintf("started %d", st.Started), true
}

// makeSnapshot creates the snapshot and blocks until it ends. Its name is derived, so that a worker that takes over after a crash knows it.
// A snapshot of that name belongs to the session if the record is IN_PROGRESS: before that, the source had none.
func (s *Session) makeSnapshot(ctx context.Context, lease *session.PhaseLease) error {
	r, err := DecodeSnapshot(lease.Phase.Body)
	if err != nil {
		return err
	}
	if r.UUID == "" {
		if err := s.register(ctx); err != nil {
			return fmt.Errorf("register the repository on the source: %w", err)
		}
	}
	if lease.Phase.State == session.PhaseNotStarted {
		name := r.Name // after a failed one
		if !s.Snapshot.Names(name) {
			name = s.Snapshot.wanted()
		}
		r = SnapshotRecord{Name: name, Repository: s.Snapshot.Repository}
		if err := lease.Save(ctx, "", r.encode(), false); err != nil {
			return err
		}
		switch there, err := s.Snapshots.State(ctx, r.Name); {
		case err == nil:
			id, _ := snapshotIdentity(there)
			return s.endSnapshot(ctx, lease, fmt.Errorf("the source has a snapshot %s (%s) that this session did not create; it is never used: choose another --session-name, delete it, or give --retry-snapshot", r.Name, id))
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("snapshot %s on the source: %w", r.Name, err)
		}
		if err := lease.Save(ctx, session.PhaseInProgress, r.encode(), false); err != nil {
			return err
		}
	}
	if r.UUID == "" {
		created, err := s.beginSnapshot(ctx, r.Name)
		if err != nil {
			return fmt.Errorf("create snapshot %s on the source: %w", r.Name, err)
		}
		s.Log.InfoContext(ctx, "snapshot started on the source", "snapshot", r.Name, "repository", r.Repository, "created", created)
	}
	return s.watchSnapshot(ctx, lease, r)
}

// beginSnapshot starts the snapshot. While the source is busy with another one, it waits without a time limit.
func (s *Session) beginSnapshot(ctx context.Context, name string) (created bool, err error) {
	for {
		created, err = s.Snapshots.Create(ctx, name)
		if !errors.Is(err, live.ErrBusy) {
			return created, err
		}
		if s.Snapshot.NoWait {
			return false, fmt.Errorf("%w (the source is busy with another one: %w)", ErrSnapshotRuns, err)
		}
		s.Log.WarnContext(ctx, "the source is busy with another snapshot; waiting for its end", "snapshot", name, "error", err)
		if err := s.Runner.Clock.Sleep(ctx, s.Snapshot.poll()); err != nil {
			return false, err
		}
	}
}

const (
	// mostAbsent is the maximum number of polls that may find a just created snapshot missing.
	mostAbsent = 15
	// firstPoll is the first polling interval, which then doubles. A small snapshot ends within a second.
	firstPoll = 100 * time.Millisecond
)

// watchSnapshot records the progress of the snapshot until it ends.
func (s *Session) watchSnapshot(ctx context.Context, lease *session.PhaseLease, r SnapshotRecord) error {
	poll := min(firstPoll, s.Snapshot.poll())
	for absent := 0; ; {
		st, err := s.Snapshots.State(ctx, r.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && r.UUID == "" && absent < mostAbsent:
			absent++
		case errors.Is(err, fs.ErrNotExist):
			return s.endSnapshot(ctx, lease, fmt.Errorf("the snapshot %s that this session created is gone from the source", r.Name))
		case err != nil:
			return fmt.Errorf("snapshot %s on the source: %w", r.Name, err)
		default:
			id, anonymous := snapshotIdentity(st)
			if r.UUID != "" && r.UUID != id {
				return s.endSnapshot(ctx, lease, fmt.Errorf("the source has another snapshot under the name %s (%s) than the one this session created (%s); it is never used", r.Name, id, r.UUID))
			}
			moved := r.UUID == "" || st.BytesDone > r.BytesDone || st.ShardsDone > r.ShardsDone
			r = SnapshotRecord{
				Name: r.Name, Repository: r.Repository, UUID: id, Anonymous: anonymous, State: st.State, Failures: st.Failures[:min(len(st.Failures), 20)],
				ShardsTotal: st.ShardsTotal, ShardsDone: st.ShardsDone, ShardsFailed: st.ShardsFailed, BytesTotal: st.BytesTotal, BytesDone: st.BytesDone,
			}
			if r.Measure = (Measure{st.BytesDone, st.BytesTotal, "bytes"}); st.BytesTotal == 0 {
				r.Measure = Measure{st.ShardsDone, st.ShardsTotal, "shards"}
			}
			if err := lease.Save(ctx, "", r.encode(), moved); err != nil {
				return err
			}
			if ended, err := s.snapshotEnded(ctx, lease, r, st.Started); ended {
				return err
			}
			if s.Snapshot.NoWait {
				return ErrSnapshotRuns
			}
		}
		if err := s.Runner.Clock.Sleep(ctx, poll); err != nil {
			return err
		}
		poll = min(2*poll, s.Snapshot.poll())
	}
}

// snapshotEnded reports whether the snapshot has ended, and records the result in the phase.
func (s *Session) snapshotEnded(ctx context.Context, lease *session.PhaseLease, r SnapshotRecord, started int64) (ended bool, err error) {
	s.Log.InfoContext(ctx, "snapshot", "snapshot", r.Name, "state", r.State, "shards", r.ShardsDone, "of", r.ShardsTotal, "bytes", r.BytesDone, "of_bytes", r.BytesTotal)
	switch {
	case r.State == "SUCCESS", r.State == "PARTIAL" && s.Snapshot.AllowPartial:
		if err := s.isLater(ctx, r.Name, started); err != nil {
			return true, s.endSnapshot(ctx, lease, err)
		}
		return true, lease.Advance(ctx, session.PhaseCompleted, nil)
	case r.State == "PARTIAL":
		return true, s.endSnapshot(ctx, lease, fmt.Errorf("snapshot %s is PARTIAL: %s; --allow-partial migrates what it holds", r.Name, failuresText(r)))
	case r.State == "FAILED", r.State == "INCOMPATIBLE":
		return true, s.endSnapshot(ctx, lease, fmt.Errorf("snapshot %s is %s on the source: %s", r.Name, r.State, failuresText(r)))
	}
	return false, nil
}

// isLater returns an error if the source dates a snapshot before the former one of its chain, because their order would then be unknown.
func (s *Session) isLater(ctx context.Context, name string, started int64) error {
	if s.Request == nil || s.Request.Follow == nil || s.Request.Follow.Since == "" {
		return nil
	}
	since := s.Request.Follow.Since
	former, err := s.Snapshots.State(ctx, since)
	if err != nil || former.Started < started { // other problems of the former snapshot are reported when it is read
		return nil
	}
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	return fmt.Errorf("the source dates the snapshot %s %s, and the former one, %s, %s: the clock of its elected master was set back, or another node with another clock is the master now. "+
		"Set the clocks, and wait until they are past the latter", name, at(started), since, at(former.Started))
}

func failuresText(r SnapshotRecord) string {
	if len(r.Failures) == 0 {
		return fmt.Sprintf("%d of %d shards failed", r.ShardsFailed, r.ShardsTotal)
	}
	return strings.Join(r.Failures, "; ")
}

// endSnapshot marks the phase FAILED and returns errEnded.
func (s *Session) endSnapshot(ctx context.Context, lease *session.PhaseLease, why error) error {
	if err := lease.Fail(ctx, why.Error()); err != nil {
		return err
	}
	return errEnded
}

// retrySnapshot reopens the failed phase, once, if --retry-snapshot was given.
func (s *Session) retrySnapshot(ctx context.Context) error {
	if !s.Snapshot.Retry {
		return nil
	}
	return s.reopenSnapshot(ctx, "--retry-snapshot", func(r SnapshotRecord) string {
		if s.Snapshot.number(r.Name) > 1 {
			return ""
		}
		return s.Snapshot.wanted()
	})
}

// renewSnapshot reopens the failed phase with the next name of a snapshot, if the options permit that.
func (s *Session) renewSnapshot(ctx context.Context) error {
	if !s.Snapshot.Retry && !s.Snapshot.Renews {
		return nil
	}
	return s.reopenSnapshot(ctx, "run again", func(r SnapshotRecord) string {
		n := s.Snapshot.number(r.Name)
		if n == 0 {
			return s.Snapshot.wanted()
		}
		if s.Snapshot.Renews {
			s.deleteFailed(ctx, r)
		}
		return fmt.Sprintf("%s-%d", s.Snapshot.Name, n+1)
	})
}

// reopenSnapshot reopens the phase, if it failed, with the name that next returns for its record; "" leaves it as it is.
func (s *Session) reopenSnapshot(ctx context.Context, operator string, next func(SnapshotRecord) string) error {
	if !s.Snapshot.Derived || !s.Phases.Has(PhaseSnapshot) {
		return nil
	}
	p, err := session.PhasesOf(s.Coordinator).Read(ctx, session.SnapshotPhase)
	if err != nil || p.State != session.PhaseFailed {
		return err
	}
	r, err := DecodeSnapshot(p.Body)
	if err != nil {
		return err
	}
	name := next(r)
	if name == "" {
		return nil
	}
	_, err = session.PhasesOf(s.Coordinator).Reopen(ctx, session.SnapshotPhase, operator, SnapshotRecord{Name: name, Repository: s.Snapshot.Repository}.encode())
	return err
}

// deleteFailed deletes a failed snapshot that this session created.
func (s *Session) deleteFailed(ctx context.Context, r SnapshotRecord) {
	if r.UUID == "" {
		return
	}
	st, err := s.Snapshots.State(ctx, r.Name)
	if id, _ := snapshotIdentity(st); errors.Is(err, fs.ErrNotExist) || err == nil && id != r.UUID {
		return
	}
	if err == nil {
		err = s.Snapshots.Delete(ctx, r.Name)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "a failed snapshot of this session stays on the source: delete it by hand", "snapshot", r.Name, "repository", r.Repository, "error", err)
	}
}
