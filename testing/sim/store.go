package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
)

// server is the coordination store: one copy of the truth and a search view that
// lags behind it.
type server struct {
	w       *World
	skew    time.Duration
	items   map[string]cms.Item
	records map[string]cms.Record
	rev     int64

	view      map[string]cms.Item
	viewOpen  []string        // ids of open items in the view, sorted
	stale     map[string]bool // changed since the last refresh
	refreshed time.Duration

	journal  []journalEntry // changes of the last seconds, for a failover that loses them
	applied  map[string]int // by verdict and transition
	requests int
}

type journalEntry struct {
	at  time.Duration
	id  string
	old *cms.Item // nil: was created
}

func newServer(w *World) *server {
	return &server{w: w, items: map[string]cms.Item{}, records: map[string]cms.Record{}, view: map[string]cms.Item{}, stale: map[string]bool{},
		refreshed: -time.Hour, applied: map[string]int{}}
}

func (s *server) clock() time.Time { return epoch.Add(s.w.now + s.skew) }

func (s *server) note(id string) {
	s.stale[id] = true
	if old, ok := s.items[id]; ok {
		s.journal = append(s.journal, journalEntry{s.w.now, id, &old})
	} else {
		s.journal = append(s.journal, journalEntry{s.w.now, id, nil})
	}
	if len(s.journal) > 4096 {
		s.journal = slices.Delete(s.journal, 0, 2048)
	}
}

// loseSuffix undoes the changes of the last moments, as a replica does that is
// promoted without them.
func (s *server) loseSuffix(d time.Duration) (lost int) {
	for len(s.journal) > 0 {
		e := s.journal[len(s.journal)-1]
		if e.at < s.w.now-d {
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

func (s *server) apply(id string, t cms.Transition) (cms.Item, cms.Verdict, error) {
	old, ok := s.items[id]
	if !ok {
		return cms.Item{}, 0, fmt.Errorf("%s: %w", id, cms.ErrNotFound)
	}
	it, v := t.Apply(old, s.clock().UnixMilli())
	s.applied[t.Name()+" "+v.String()]++
	if v == cms.Applied || v == cms.Exhausted {
		s.note(id)
		s.items[id] = it
	}
	return it, v, nil
}

// refresh lets searches see what changed.
func (s *server) refresh() {
	s.refreshed = s.w.now
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
	if s.w.now-s.refreshed >= 30*time.Second {
		s.refresh()
	}
	now := s.clock().UnixMilli()
	for _, id := range s.viewOpen {
		if it := s.view[id]; it.Expiration*1000+grace.Milliseconds() < now {
			out = append(out, it)
		}
	}
	s.w.r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
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

// network is what one worker sees of the server: requests and answers get lost,
// come twice, or come late.
type network struct {
	p      *Process
	s      *server
	faults *Faults
	log    *History
	calls  *int
	atCall func(n int) Fate // nil: by chance
}

// Fate of one request.
type Fate uint8

// Fates.
const (
	Fine       Fate = iota
	LostBefore      // the request never arrives
	LostAfter       // the answer never arrives
	Twice           // it is applied again later
	Late            // the answer never arrives, and the request is applied only later
	DieBefore       // the worker dies before the request arrives
	DieAfter        // the worker dies before the answer arrives
	Conflict        // refused: somebody else wrote the document at the same moment
	fates
)

// String names the fate.
func (f Fate) String() string {
	return [...]string{"fine", "request lost", "answer lost", "duplicated", "late", "crash before", "crash after", "conflict"}[f]
}

func (n *network) fate() Fate {
	*n.calls++
	if n.atCall != nil {
		return n.atCall(*n.calls)
	}
	f := n.faults
	switch x := n.p.w.r.Float64(); {
	case x < f.Lost/2:
		return LostBefore
	case x < f.Lost:
		return LostAfter
	case x < f.Lost+f.Twice:
		return Twice
	case x < f.Lost+f.Twice+f.Late:
		return Late
	case x < f.Lost+f.Twice+f.Late+f.Die/2:
		return DieBefore
	case x < f.Lost+f.Twice+f.Late+f.Die:
		return DieAfter
	case x < f.Lost+f.Twice+f.Late+f.Die+f.Conflict:
		return Conflict
	}
	return Fine
}

// call carries do to the server and back.
func call[T any](n *network, do func() (T, error)) (T, error) {
	var none T
	w := n.p.w
	n.s.requests++
	fate := n.fate()
	delay := func() time.Duration { return w.between(time.Millisecond, 40*time.Millisecond) }
	lost := fmt.Errorf("no answer: %w", fault.ErrUnavailable)
	again := func(after time.Duration) {
		w.After(after, func() { _, _ = do() }) // what it says reaches nobody
	}
	switch fate {
	case LostBefore:
		n.p.park(delay() + 30*time.Second)
		return none, lost
	case DieBefore:
		n.p.Kill()
		n.p.park(delay())
	case Conflict:
		n.p.park(delay() + delay())
		return none, cms.ErrConflict
	case Late:
		again(w.between(time.Second, 40*time.Minute))
		n.p.park(delay() + 30*time.Second)
		return none, lost
	}
	n.p.park(delay())
	got, err := do()
	switch fate {
	case Twice:
		again(w.between(time.Millisecond, 40*time.Minute))
	case LostAfter:
		n.p.park(30 * time.Second)
		return none, lost
	case DieAfter:
		n.p.Kill()
	}
	n.p.park(delay())
	return got, err
}

func (n *network) Create(_ context.Context, items []cms.Item) (int, error) {
	items = slices.Clone(items)
	return call(n, func() (int, error) { return n.s.create(items), nil })
}

type applied struct {
	it cms.Item
	v  cms.Verdict
}

func (n *network) Apply(_ context.Context, id string, t cms.Transition) (cms.Item, cms.Verdict, error) {
	op := n.log.begin(n.p.w.now, id, t)
	got, err := call(n, func() (applied, error) {
		it, v, err := n.s.apply(id, t)
		n.log.effect(op)
		return applied{it, v}, err
	})
	if err == nil {
		n.log.end(op, n.p.w.now, got.it, got.v)
	}
	return got.it, got.v, err
}

func (n *network) Get(_ context.Context, id string) (cms.Item, error) {
	return call(n, func() (cms.Item, error) {
		it, ok := n.s.items[id]
		if !ok {
			return it, fmt.Errorf("%s: %w", id, cms.ErrNotFound)
		}
		return it, nil
	})
}

func (n *network) Now(context.Context) (time.Time, time.Duration, error) {
	now, err := call(n, func() (time.Time, error) { return n.s.clock(), nil })
	return now, 50 * time.Millisecond, err
}

func (n *network) Candidates(_ context.Context, grace time.Duration, k int) ([]cms.Item, error) {
	return call(n, func() ([]cms.Item, error) { return n.s.candidates(grace, k), nil })
}

func (n *network) Open(context.Context) (cms.Open, error) {
	return call(n, func() (cms.Open, error) { return n.s.open(), nil })
}

func (n *network) Scan(context.Context) iter.Seq2[cms.Item, error] {
	return func(yield func(cms.Item, error) bool) {
		all, err := call(n, func() ([]cms.Item, error) {
			var out []cms.Item
			for _, id := range slices.Sorted(maps.Keys(n.s.items)) {
				out = append(out, n.s.items[id])
			}
			return out, nil
		})
		if err != nil {
			yield(cms.Item{}, err)
			return
		}
		for _, it := range all {
			if !yield(it, nil) {
				return
			}
		}
	}
}

func (n *network) Record(_ context.Context, id string) (cms.Record, error) {
	return call(n, func() (cms.Record, error) {
		r, ok := n.s.records[id]
		if !ok {
			return r, fmt.Errorf("%s: %w", id, cms.ErrNotFound)
		}
		return r, nil
	})
}

func (n *network) Put(_ context.Context, r cms.Record) (cms.Revision, error) {
	return call(n, func() (cms.Revision, error) { return n.s.put(r) })
}

func (n *network) Delete(_ context.Context, r cms.Record) error {
	_, err := call(n, func() (struct{}, error) {
		if n.s.records[r.ID].Revision != r.Revision {
			return struct{}{}, cms.ErrConflict
		}
		delete(n.s.records, r.ID)
		return struct{}{}, nil
	})
	return err
}

func (n *network) List(_ context.Context, kind string) iter.Seq2[cms.Record, error] {
	return func(yield func(cms.Record, error) bool) {
		all, err := call(n, func() ([]cms.Record, error) {
			var out []cms.Record
			for id, r := range n.s.records {
				if strings.HasPrefix(id, kind+":") {
					out = append(out, r)
				}
			}
			sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
			return out, nil
		})
		if err != nil {
			yield(cms.Record{}, err)
			return
		}
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}
