package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// server is the coordination store: one authoritative copy and a search view that lags behind it.
type server struct {
	w       *world
	mu      sync.Mutex
	skew    time.Duration
	silent  time.Time // it does not respond before this time
	refuses bool      // until then it refuses connections instead of hanging
	items   map[string]cms.Item
	records map[string]cms.Record
	objects map[string]object // set if the coordination state is in a bucket
	ends    map[shardKey][]int64
	rev     int64

	view      map[string]cms.Item
	viewOpen  []string        // ids of open items in the view, sorted
	stale     map[string]bool // changed since the last refresh
	refreshed time.Time

	forgot  bool           // forget was called
	journal []journalEntry // recent changes, for a failover that loses them
	applied map[string]int // by result and transition
}

type journalEntry struct {
	at  time.Time
	id  string
	old *cms.Item // nil: the item was created
}

func newServer(w *world) *server {
	return &server{w: w, items: map[string]cms.Item{}, records: map[string]cms.Record{}, objects: map[string]object{}, ends: map[shardKey][]int64{}, view: map[string]cms.Item{}, stale: map[string]bool{},
		applied: map[string]int{}}
}

func (s *server) clock() time.Time { return time.Now().Add(s.skew) }

func (s *server) note(id string) {
	s.stale[id] = true
	if old, ok := s.items[id]; ok {
		s.journal = append(s.journal, journalEntry{time.Now(), id, &old})
	} else {
		s.journal = append(s.journal, journalEntry{time.Now(), id, nil})
	}
	if len(s.journal) > 4096 {
		s.journal = slices.Delete(s.journal, 0, 2048)
	}
}

// loseSuffix undoes recent changes, like the promotion of a replica that lacks them.
func (s *server) loseSuffix(d time.Duration) (lost int) {
	for len(s.journal) > 0 {
		e := s.journal[len(s.journal)-1]
		if e.at.Before(time.Now().Add(-d)) {
			break
		}
		s.journal = s.journal[:len(s.journal)-1]
		s.stale[e.id] = true
		if e.old == nil {
			delete(s.items, e.id)
		} else {
			s.items[e.id] = *e.old
		}
		lost++
	}
	return lost
}

func (s *server) create(items []cms.Item) (created int) {
	for _, it := range items {
		if _, ok := s.items[it.ID]; !ok {
			s.note(it.ID)
			s.items[it.ID] = it
			created++
		}
	}
	return created
}

func (s *server) apply(id string, t cms.Transition) (cms.Item, cms.Result, error) {
	old, ok := s.items[id]
	if !ok {
		return cms.Item{}, 0, fmt.Errorf("%s: %w", id, cms.ErrNotFound)
	}
	it, v := t.Apply(old, s.clock().UnixMilli())
	s.applied[t.Name()+" "+v.String()]++
	if v == cms.Applied || v == cms.Exhausted {
		s.note(id)
		s.items[id] = it
		if it.FailedItem() && !old.FailedItem() {
			s.w.itemFailed(it)
		}
	}
	return it, v, nil
}

// refresh makes changes visible to searches.
func (s *server) refresh() {
	s.refreshed = time.Now()
	for id := range s.stale {
		it, exists := s.items[id]
		if exists {
			s.view[id] = it
		} else {
			delete(s.view, id)
		}
		i, listed := slices.BinarySearch(s.viewOpen, id)
		switch open := exists && it.Open() && id != cms.SetupID; {
		case open && !listed:
			s.viewOpen = slices.Insert(s.viewOpen, i, id)
		case !open && listed:
			s.viewOpen = slices.Delete(s.viewOpen, i, i+1)
		}
	}
	clear(s.stale)
}

func (s *server) candidates(grace time.Duration, n int) (out []cms.Item) {
	if time.Since(s.refreshed) >= 30*time.Second {
		s.refresh()
	}
	now := s.clock().UnixMilli()
	for _, id := range s.viewOpen {
		if it := s.view[id]; it.Expiration*1000+grace.Milliseconds() < now {
			out = append(out, it)
		}
	}
	s.w.dice.about("candidates").Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(n, len(out))]
}

func (s *server) open() (o cms.Open) {
	s.refresh()
	for _, id := range s.viewOpen {
		it := s.view[id]
		if o.Items == 0 || it.Expiration < o.NextExpiry {
			o.NextExpiry, o.Holder = it.Expiration, it.Holder
		}
		o.Items++
	}
	return o
}

func (s *server) put(r cms.Record) (cms.Revision, error) {
	if s.records[r.ID].Revision != r.Revision {
		return cms.Revision{}, cms.ErrConflict
	}
	s.rev++
	r.Revision = cms.Revision{Seq: s.rev, Term: 1}
	r.Body = append(json.RawMessage(nil), r.Body...)
	s.records[r.ID] = r
	return r.Revision, nil
}

// ids returns the ids of all items, sorted.
func (s *server) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.items))
}

func (s *server) setSkew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = d
}

// silence makes the store hang for some time, or refuse connections.
func (s *server) silence(d time.Duration, refuses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent, s.refuses = time.Now().Add(d), refuses
}

// away returns how long a client waits in vain now; 0 if the store responds.
func (s *server) away() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case time.Until(s.silent) <= 0:
		return 0
	case s.refuses:
		return 5 * time.Millisecond
	}
	return storeTimeout
}

// forget loses recent changes.
func (s *server) forget(d time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgot = true
	return s.loseSuffix(d)
}
