package engine

import (
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// Meter reports the progress of a process: the sums of finished and running items.
type Meter struct {
	mu      sync.Mutex
	done    Progress
	running map[*job]struct{}
	refused map[string]*bulk.Loader // by index, the last Loader whose documents the target rejected as overload
	ended   map[string]endedItem    // recently ended items, by id
	since   time.Duration           // when the current period with running items started; monotonic clock
}

// Progress is a reading of a Meter.
type Progress struct {
	Time       time.Time `json:"time"`
	Documents  int64     `json:"documents"`   // live documents that arrived or were recorded as failed
	Bytes      int64     `json:"bytes"`       // bytes of their sources
	Failed     int64     `json:"failed"`      // documents recorded as failed
	Resent     int64     `json:"resent"`      // documents sent again because the target was busy
	Retries    int64     `json:"retries"`     // requests repeated, whole or in part
	Items      int64     `json:"items"`       // items finished by this process
	ShardBytes int64     `json:"shard_bytes"` // repository bytes of finished work, for the remaining time
	Running    int       `json:"running"`     // active items
	// Busy is the time during which at least one item was active; Leases is the sum over all leases. Both cover ended leases only.
	Busy   time.Duration `json:"-"`
	Leases time.Duration `json:"-"`
}

type endedItem struct {
	progress.Ahead
	at time.Duration
}

const (
	// endedFor is the time for which an ended item is listed, since an earlier reading of the store shows less of it.
	endedFor = 30 * time.Second
	maxEnded = 20_000
)

// NewMeter returns an empty Meter.
func NewMeter() *Meter {
	return &Meter{running: map[*job]struct{}{}, refused: map[string]*bulk.Loader{}, ended: map[string]endedItem{}}
}

// Items returns the progress of the items that this process works on or has ended within the last 30 s, by id.
func (m *Meter) Items() map[string]progress.Ahead {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]progress.Ahead{}
	for id, e := range m.ended {
		all[id] = e.Ahead
	}
	for j := range m.running {
		if a, ok := j.ahead(); ok {
			all[j.lease.Item.ID] = a
		}
	}
	return all
}

// Overloaded returns the indices of running or ended items whose documents the target currently rejects as overload while it accepts
// documents of other indices.
func (m *Meter) Overloaded() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for j := range m.running {
		m.refusedOf(j)
	}
	all := map[string]bool{}
	for index, l := range m.refused {
		if all[index] = l.Overloaded(); !all[index] {
			delete(all, index)
			delete(m.refused, index)
		}
	}
	return all
}

// refusedOf keeps the Loader of a job if its index is overloaded. The caller holds the mutex.
func (m *Meter) refusedOf(j *job) {
	if l := j.loaded.Load(); l != nil && l.Overloaded() {
		m.refused[j.id.Index] = l
	}
}

func (m *Meter) start(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.running) == 0 {
		m.since = j.acquired
	}
	m.running[j] = struct{}{}
}

func (m *Meter) finish(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, j)
	m.refusedOf(j)
	now := j.runner.Clock.Read().Mono
	end := now
	if j.lease.Grouped() { // its lease ends with the group
		end = j.copied
	}
	if m.done.Leases += end - j.acquired; len(m.running) == 0 {
		m.done.Busy += now - m.since
	}
	m.done.add(j.progress())
	m.done.Items++
	if a, ok := j.ahead(); ok {
		for id, e := range m.ended {
			if now-e.at > endedFor || len(m.ended) >= maxEnded {
				delete(m.ended, id)
			}
		}
		m.ended[j.lease.Item.ID] = endedItem{a, now}
	}
}

// Read returns the sums at this moment.
func (m *Meter) Read(now time.Time) Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.done
	for j := range m.running {
		p.add(j.progress())
	}
	p.Time, p.Running = now, len(m.running)
	return p
}

func (p *Progress) add(q Progress) {
	p.Documents += q.Documents
	p.Bytes += q.Bytes
	p.Failed += q.Failed
	p.Resent += q.Resent
	p.Retries += q.Retries
	p.ShardBytes += q.ShardBytes
}
