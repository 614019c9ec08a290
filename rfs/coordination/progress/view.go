package progress

import (
	"context"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

const (
	// readInterval is the shortest time between two readings of the store by a Follower.
	readInterval = 5 * time.Second
	// sampleInterval is the interval at which a Follower samples its own process.
	sampleInterval = time.Second
	// readTimeout limits one reading.
	readTimeout = time.Minute
	// RecordLag is the maximum delay until work appears in the store: workers record every 10 s, and the store is read every few seconds.
	RecordLag = 20 * time.Second
)

// States of a session, in View.State.
const (
	StateUnknown  = "unknown"              // not read yet
	StateWorking  = "working"              // leases are held, or a phase before the documents is in progress
	StateWaiting  = "waiting"              // work is left, and no lease is held
	StatePaused   = "paused"               // the operator has paused or drained the fleet
	StateSilent   = "no report"            // leases are held, but no worker has reported lately: their processes may have ended
	StateComplete = "complete"             // every phase has ended, no item is open, and nothing was lost
	StateLosses   = "complete with losses" // every phase has ended and no item is open, but documents, shards or indices failed
	StateUndone   = "undone"               // what the session created was removed, or is being removed
)

// silentAfter is the time without a report after which a View shows that workers are silent although they hold leases. Workers report every
// 10 s.
const silentAfter = 30 * time.Second

// View is an observer's view of a session at one time, for rfsd migrate, rfsctl status, the API, the page and the metrics.
type View struct {
	State string `json:"state"` // unknown, working, waiting, paused, no report, complete, complete with losses, undone
	// GivenUp are failed items, indices and phases, which do not become complete by themselves.
	GivenUp int64 `json:"given_up"`
	// GivenUpNames name the shards, indices and phases of GivenUp; at most three.
	GivenUpNames []string `json:"given_up_names,omitempty"`

	DryRun    bool    `json:"dry_run,omitempty"` // nothing is sent
	Phase     Phase   `json:"phase,omitzero"`    // the current one; absent before the first reading, and at the end
	Documents int64   `json:"documents"`         // of the session, by all present and former processes: indexed, kept or failed
	Failed    int64   `json:"documents_failed"`  // of Documents
	Rate      float64 `json:"documents_per_second"`
	// Mean is the rate since the observer started; with a single reading, since the start of the phase.
	Mean       float64 `json:"documents_per_second_mean"`
	SourceRate float64 `json:"source_bytes_per_second"`     // of the sources of documents
	ByteRate   float64 `json:"repository_bytes_per_second"` // of the repository
	// Share is the completed fraction of the repository's bytes, 0 to 1; 0 while unknown.
	Share float64 `json:"share"`
	// Left is the remaining time at the rate of the last minute, in seconds; nil while unknown.
	Left *float64 `json:"eta_seconds,omitempty"`
	// Quiet is the time since a document last arrived although items are in progress, in seconds; 0 if it is short.
	Quiet float64 `json:"quiet_seconds,omitempty"`
	// Silent is the time since a worker last reported, in seconds, while work is left and no worker is known to be active; otherwise 0.
	Silent float64 `json:"silent_seconds,omitempty"`
	// ShardsFailed, Undelivered and Uncounted are copied from the Counts of the session.
	ShardsFailed int64 `json:"shards_failed,omitempty"`
	Undelivered  int64 `json:"documents_not_delivered,omitempty"`
	Uncounted    int64 `json:"shards_uncounted,omitempty"`
}

// Ended reports whether every phase has ended and no item is open, or the session was undone.
func (v View) Ended() bool {
	return v.State == StateComplete || v.State == StateLosses || v.State == StateUndone
}

// View returns the view at a time of the monotonic clock. s is the session as last read, or nil; the samples of the Measure must cover the
// whole session.
func (m *Measure) View(now time.Duration, s *Migration) View {
	v := View{State: StateUnknown, Documents: m.last.sum.Documents, Failed: m.last.sum.Failed}
	m.rates(&v, now)
	if s == nil {
		return v
	}
	t := s.Totals
	v.Phase, v.State = s.phase(), s.state(m.last.sum.Running)
	v.GivenUp, v.GivenUpNames = s.givenUp()
	v.ShardsFailed, v.Undelivered, v.Uncounted = t.ShardsFailed, t.Undelivered, t.Uncounted
	if s.Complete {
		v.Failed = t.Failed // documents may have been delivered since
	}
	m.silence(&v, s)
	total := t.Bytes
	switch {
	case s.Complete && t.BytesLost == 0:
		v.Share = 1
	case total > 0:
		v.Share = min(float64(m.last.sum.Bytes)/float64(total), 1)
	}
	if v.Share == 1 && (t.BytesLost > 0 || t.ShardsFailed > 0) {
		v.Share = 0.999
	}
	switch {
	case total == 0:
	case v.ByteRate > 0 && v.Rate == 0: // bytes of deleted documents were passed, and no other arrives: nothing shows when
	case v.ByteRate > 0:
		v.left(total-t.BytesLost-m.last.sum.Bytes, v.ByteRate)
	case m.Lag > 0 && len(m.points) < 2: // nothing has grown since the first reading of the store
		s.mean(&v)
	}
	if v.State != StateWorking {
		v.Quiet = 0
	}
	switch v.State {
	case StatePaused, StateSilent, StateComplete, StateLosses, StateUndone:
		v.Left = nil
	case StateWaiting: // until the next worker comes, which may be immediately
		if now-m.grown >= quietAfter+m.Lag || len(m.points) < 2 {
			v.Left = nil
		}
	}
	return v
}

// silence sets Silent when only the store shows whether workers are active.
func (m *Measure) silence(v *View, s *Migration) {
	if m.Lag == 0 || s.LastReport == nil || v.State != StateWorking && v.State != StateWaiting {
		return
	}
	silent := s.ReadAt.Sub(*s.LastReport)
	if silent < silentAfter {
		return
	}
	v.Silent = silent.Truncate(time.Second).Seconds()
	if v.State == StateWorking && s.Totals.Leased > 0 {
		v.State = StateSilent
	}
}

// maxLeft is the longest time that is shown.
const maxLeft = 10 * 365 * 24 * time.Hour

func (v *View) left(bytes int64, perSecond float64) {
	if seconds := float64(max(bytes, 0)) / perSecond; seconds <= maxLeft.Seconds() {
		v.Left = &seconds
	}
}

// mean sets Mean and Left from a single reading: the mean since the start of the documents phase.
func (m *Migration) mean(v *View) {
	for _, p := range m.Phases {
		if p.Name != "documents" || p.Started == nil || p.Finished != nil {
			continue
		}
		took, w := m.ReadAt.Sub(*p.Started).Seconds(), m.Totals.Work()
		if took < 1 {
			return
		}
		v.Mean = float64(w.Documents) / took
		if w.Bytes > 0 {
			v.left(m.Totals.BytesLeft(), float64(w.Bytes)/took)
		}
	}
}

// phase returns the current phase; the zero Phase when all have ended.
func (m *Migration) phase() Phase {
	for _, p := range m.Phases {
		if p.State != Completed && p.State != Failed && p.State != Skipped {
			return p
		}
	}
	return Phase{}
}

// state returns the state of the session; running is the number of items in progress.
func (m *Migration) state(running int64) string {
	p := m.phase()
	switch {
	case m.Undone:
		return StateUndone
	case m.Complete && (len(m.Failures) > 0 || m.Totals.Failed > 0 || m.Totals.ShardsFailed > 0):
		return StateLosses
	case m.Complete:
		return StateComplete
	case m.Intent.State == "pause" || m.Intent.State == "drain":
		return StatePaused
	case running > 0, p.Holder != "":
		return StateWorking
	}
	return StateWaiting
}

// maxNames limits how many failures a view names.
const maxNames = 3

// givenUp returns the number of failed items, indices and phases, and the names of the first ones.
func (m *Migration) givenUp() (n int64, names []string) {
	for _, f := range m.Failures {
		n += f.Count
		names = append(names, f.Examples[:min(len(f.Examples), maxNames-len(names))]...)
	}
	return n, names
}

// Follower reads a session repeatedly, so that a process can show the progress of all processes.
type Follower struct {
	Read    func(ctx context.Context) (*Migration, error)
	Clock   timing.Clock
	Own     func() Work // work of this process since its start, which the store shows later; nil if it does no work
	DryRun  bool
	Changed func() // called after each sample; may be nil

	mu      sync.Mutex
	measure Measure
	seen    *Migration
	at      time.Duration // of the last reading
	failed  error         // of the last reading
	first   Work          // of the first reading, minus the work of this process by then
}

// Run reads the store until ctx is done, at most every 5 s and for at most a twentieth of the time (until items exist, every second and for
// at most half of the time), and takes a sample every second.
func (f *Follower) Run(ctx context.Context) {
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			begin := f.Clock.Read().Mono
			pause, share := readInterval, time.Duration(20)
			if f.Refresh(ctx); !f.seeded() {
				pause, share = sampleInterval, 1 // the total will soon be known
			}
			if took := f.Clock.Read().Mono - begin; f.Clock.Sleep(ctx, max(pause, share*took)) != nil {
				return
			}
		}
	})
	for f.Clock.Sleep(ctx, sampleInterval) == nil {
		f.View()
		if f.Changed != nil {
			f.Changed()
		}
	}
	reading.Wait()
}

// Refresh reads the store once. After an error the previous reading remains.
func (f *Follower) Refresh(ctx context.Context) {
	rctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m, err := f.Read(rctx)
	if ctx.Err() != nil {
		return
	}
	own := f.own()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed = err; err != nil {
		return
	}
	if f.seen == nil {
		f.first = m.Totals.Work().minus(own)
		if f.Own == nil {
			f.measure.Lag = RecordLag
		}
	}
	f.seen, f.at = m, f.Clock.Read().Mono
}

// seeded reports whether items of the session were read.
func (f *Follower) seeded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen != nil && f.seen.Totals.Items > 0
}

func (f *Follower) own() Work {
	if f.Own == nil {
		return Work{}
	}
	return f.Own()
}

// Seen returns the session as last read, or nil, the age of that reading, and the error of a later one.
func (f *Follower) Seen() (m *Migration, age time.Duration, err error) {
	now := f.Clock.Read().Mono
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen, now - f.at, f.failed
}

// View takes a sample and returns the current view.
func (f *Follower) View() View {
	now, own := f.Clock.Read().Mono, f.own()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		return View{State: StateUnknown, DryRun: f.DryRun, Documents: own.Documents, Failed: own.Failed}
	}
	f.measure.Add(now, own.plus(f.first).atLeast(f.seen.Totals.Work()))
	v := f.measure.View(now, f.seen)
	v.DryRun = f.DryRun
	return v
}
