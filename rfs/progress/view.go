package progress

import (
	"context"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

const (
	// window is the time over which the rate of a View is measured.
	window = time.Minute
	// readInterval is the shortest time between two readings of the store by a Follower.
	readInterval = 10 * time.Second
	// quietAfter is how long no document may arrive before a View reports it.
	quietAfter = 10 * time.Second
)

// Own is what a process itself has done since it started.
type Own struct {
	Documents  int64 // indexed or failed
	Failed     int64
	Bytes      int64 // of their sources
	ShardBytes int64 // of the repository
	Running    int   // items in work
}

// View describes a session as one process sees it: what the store holds, and what the process did since.
type View struct {
	Phase     Phase   // the one under way; without a name before the first reading, and at the end
	Documents int64   // of the session, by this and all former processes
	Failed    int64   // of Documents
	Rate      float64 // documents per second of this process over the last minute
	Mean      float64 // documents per second of this process since its start
	ByteRate  float64 // bytes of sources per second over the last minute
	// Share is the part of the repository bytes that is done, 0 to 1; 0 while it is not known.
	Share float64
	// Left is the time to the end at the rate of the last minute; 0 while it is not known.
	Left time.Duration
	// Quiet is how long no document has arrived although items are in work; 0 below 10 s.
	Quiet time.Duration
}

// Follower reads a session again and again, so that a process can show the progress of all.
type Follower struct {
	Store *cms.Coordinator
	Clock cms.Clock
	Own   func() Own

	mu      sync.Mutex
	phase   Phase   // as it was read last
	totals  Counts  // likewise
	first   *Counts // totals of the first reading, less what this process had done by then; nil before it
	samples []sample
	begin   time.Duration // of the first View
	share   float64
	grown   sample // when Own last grew
}

type sample struct {
	at  time.Duration // monotonic clock
	own Own
}

// Run reads the store until ctx ends, at most every 10 s and for at most a twentieth of the time. A reading that fails is
// left out: the process itself reports a store that does not answer.
func (f *Follower) Run(ctx context.Context) {
	for ctx.Err() == nil {
		begin := f.Clock.Read().Mono
		if m, err := Read(ctx, f.Store); err == nil {
			f.set(m)
		}
		took := f.Clock.Read().Mono - begin
		if f.Clock.Sleep(ctx, max(readInterval, 20*took)) != nil {
			return
		}
	}
}

func (f *Follower) set(m *Migration) {
	own := f.Own()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phase, f.totals = m.phase(), m.Totals
	if f.first == nil {
		t := m.Totals
		f.first = &Counts{
			Indexed: max(t.Indexed+t.Failed-own.Documents, 0), Failed: max(t.Failed-own.Failed, 0), BytesDone: max(t.BytesDone-own.ShardBytes, 0),
		}
	}
}

// View returns the state at this moment.
func (f *Follower) View() View {
	now, own := f.Clock.Read().Mono, f.Own()
	f.mu.Lock()
	defer f.mu.Unlock()
	v := View{Documents: own.Documents, Failed: own.Failed}
	f.measure(&v, sample{now, own})
	if f.first == nil {
		return v
	}
	v.Phase = f.phase
	v.Documents += f.first.Indexed
	v.Failed += f.first.Failed
	if t := f.totals; t.Bytes > 0 {
		done := max(f.first.BytesDone+own.ShardBytes, t.BytesDone)
		f.share = max(f.share, min(float64(done)/float64(t.Bytes), 1))
		v.Share = f.share
		if first := f.samples[0]; own.ShardBytes > first.own.ShardBytes {
			perByte := float64(now-first.at) / float64(own.ShardBytes-first.own.ShardBytes)
			v.Left = time.Duration(perByte * (1 - v.Share) * float64(t.Bytes))
		}
	}
	return v
}

// measure keeps s and sets the rates and Quiet of v.
func (f *Follower) measure(v *View, s sample) {
	if len(f.samples) == 0 || s.own.Documents > f.grown.own.Documents || s.own.ShardBytes > f.grown.own.ShardBytes || s.own.Running == 0 {
		f.grown = s
	}
	if len(f.samples) == 0 {
		f.begin = s.at
	}
	f.samples = append(f.samples, s)
	for len(f.samples) > 2 && s.at-f.samples[1].at >= window {
		f.samples = f.samples[1:]
	}
	first := f.samples[0]
	if seconds := (s.at - first.at).Seconds(); seconds > 0 {
		v.Rate = float64(max(s.own.Documents-first.own.Documents, 0)) / seconds
		v.ByteRate = float64(max(s.own.Bytes-first.own.Bytes, 0)) / seconds
	}
	if s.own.Documents > 0 {
		v.Mean = float64(s.own.Documents) / max((s.at-f.begin).Seconds(), 0.001)
	}
	if quiet := s.at - f.grown.at; quiet >= quietAfter {
		v.Quiet = quiet
	}
}

// phase returns the phase that is under way; the zero Phase when all have ended.
func (m *Migration) phase() Phase {
	for _, p := range m.Phases {
		if p.State != Completed && p.State != Failed && p.State != Skipped {
			return p
		}
	}
	return Phase{}
}
