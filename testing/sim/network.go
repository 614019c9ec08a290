package sim

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// network is one machine's connection to the server: requests and responses are lost, duplicated or delayed.
type network struct {
	m *machine
	s *server
}

// Fate is the fate of one request.
type Fate uint8

// Fates of requests.
const (
	Fine       Fate = iota
	LostBefore      // the request never arrives
	LostAfter       // the response never arrives
	Twice           // it is applied again later
	Late            // the response never arrives, and the request is applied later
	DieBefore       // the process dies before the request arrives
	DieAfter        // the process dies before the response arrives
	Conflict        // rejected: another process wrote the document at the same moment
	fates
)

// String returns the name of the fate.
func (f Fate) String() string {
	return [...]string{"fine", "request lost", "answer lost", "duplicated", "late", "crash before", "crash after", "conflict"}[f]
}

func (n *network) fate(r *rand.Rand, what string) Fate {
	number := n.s.w.request()
	if at := n.s.w.cfg.AtCall; at != nil {
		return at(n.s.w, number, what)
	}
	f := n.s.w.currentFaults()
	switch x := r.Float64(); {
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

// storeTimeout is the timeout of requests to the store.
const storeTimeout = 30 * time.Second

// call runs do on the server and returns its result, according to the fate of the request; what names the request.
func call[T any](ctx context.Context, n *network, what string, do func() (T, error)) (T, error) {
	var none T
	if _, err := n.m.pass(); err != nil {
		return none, err
	}
	r := n.m.about("store", what)
	fate := n.fate(r, what)
	lost := fmt.Errorf("%s: no answer: %w", what, fault.ErrUnavailable)
	// Clients map the error of their context to the category of a silent server.
	wait := func(d time.Duration) error {
		err := n.m.wait(ctx, d)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%s: %w: %w", what, err, fault.ErrUnavailable)
		}
		return err
	}
	most := n.s.w.cfg.StoreTrip
	out, back := between(r, most/20, most), between(r, most/20, most)
	if d := n.s.away(); d > 0 {
		n.m.hurt()
		return none, firstError(wait(d), lost)
	}
	if fate != Fine && fate != Conflict {
		n.m.hurt()
	}
	// A request applied after its sender has gone must not change the results of the call.
	var mu sync.Mutex
	var got T
	var failure error
	apply := func(after time.Duration) {
		time.AfterFunc(after, func() {
			n.s.mu.Lock()
			g, e := do()
			n.s.mu.Unlock()
			mu.Lock()
			got, failure = g, e
			mu.Unlock()
		})
	}
	switch fate {
	case LostBefore:
		return none, firstError(wait(storeTimeout), lost)
	case DieBefore:
		n.m.kill()
		return none, errDead
	case Conflict:
		return none, firstError(wait(out+back), cms.ErrConflict)
	case Late:
		apply(between(r, time.Second, 40*time.Minute))
		return none, firstError(wait(storeTimeout), lost)
	case Twice:
		apply(out)
		apply(out + back + between(r, time.Millisecond, 40*time.Minute))
	default:
		apply(out)
	}
	if fate == LostAfter {
		return none, firstError(wait(storeTimeout), lost)
	}
	if fate == DieAfter {
		if err := wait(out + 1); err != nil {
			return none, err
		}
		n.m.kill()
		return none, errDead
	}
	if err := wait(out + back); err != nil {
		return none, err
	}
	mu.Lock()
	defer mu.Unlock()
	return got, failure
}

// OfKind returns the store itself: a world only has shards.
func (n *network) OfKind(context.Context, string) (cms.Store, error) { return n, nil }

// Incarnation returns a constant: a world has one store.
func (n *network) Incarnation(context.Context) (string, error) { return "world", nil }

func (n *network) Create(ctx context.Context, items []cms.Item) (int, error) {
	items = slices.Clone(items)
	return call(ctx, n, "create "+items[0].ID, func() (int, error) { return n.s.create(items), nil })
}

type applied struct {
	it cms.Item
	v  cms.Result
}

func (n *network) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	op := n.s.w.history.begin(id, t)
	got, err := call(ctx, n, t.Name()+" "+id, func() (applied, error) {
		it, v, err := n.s.apply(id, t)
		n.s.w.history.effect(op)
		return applied{it, v}, err
	})
	if err == nil {
		n.s.w.history.end(op, got.it, got.v)
	}
	return got.it, got.v, err
}

// ApplyAll is one request, which arrives or is lost as a whole.
func (n *network) ApplyAll(ctx context.Context, changes []cms.Change) ([]cms.Outcome, error) {
	ops := make([]*op, len(changes))
	names := make([]string, len(changes))
	for i, c := range changes {
		ops[i], names[i] = n.s.w.history.begin(c.ID, c.Transition), c.Transition.Name()+" "+c.ID
	}
	got, err := call(ctx, n, strings.Join(names, ", "), func() ([]cms.Outcome, error) {
		outcomes := make([]cms.Outcome, len(changes))
		for i, c := range changes {
			o := &outcomes[i]
			o.Item, o.Result, o.Err = n.s.apply(c.ID, c.Transition)
			n.s.w.history.effect(ops[i])
		}
		return outcomes, nil
	})
	if err != nil {
		return nil, err
	}
	for i, o := range got {
		if o.Err == nil {
			n.s.w.history.end(ops[i], o.Item, o.Result)
		}
	}
	return got, nil
}

func (n *network) Get(ctx context.Context, id string) (cms.Item, error) {
	return call(ctx, n, "get "+id, func() (cms.Item, error) {
		it, ok := n.s.items[id]
		if !ok {
			return it, fmt.Errorf("%s: %w", id, cms.ErrNotFound)
		}
		return it, nil
	})
}

func (n *network) Now(ctx context.Context) (time.Time, time.Duration, error) {
	now, err := call(ctx, n, "now", func() (time.Time, error) { return n.s.clock(), nil })
	return now, 50 * time.Millisecond, err
}

func (n *network) Candidates(ctx context.Context, grace time.Duration, k int) ([]cms.Item, error) {
	return call(ctx, n, "candidates", func() ([]cms.Item, error) { return n.s.candidates(grace, k), nil })
}

func (n *network) Open(ctx context.Context) (cms.Open, error) {
	return call(ctx, n, "open", func() (cms.Open, error) { return n.s.open(), nil })
}

func (n *network) Scan(ctx context.Context) iter.Seq2[cms.Item, error] {
	return func(yield func(cms.Item, error) bool) {
		all, err := call(ctx, n, "scan", func() ([]cms.Item, error) {
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

func (n *network) Record(ctx context.Context, id string) (cms.Record, error) {
	return call(ctx, n, "record "+id, func() (cms.Record, error) {
		r, ok := n.s.records[id]
		if !ok {
			return r, fmt.Errorf("%s: %w", id, cms.ErrNotFound)
		}
		return r, nil
	})
}

func (n *network) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	return call(ctx, n, "put "+r.ID, func() (cms.Revision, error) { return n.s.put(r) })
}

// PutAll is one request, which arrives or is lost as a whole.
func (n *network) PutAll(ctx context.Context, records []cms.Record) ([]error, error) {
	records = slices.Clone(records)
	return call(ctx, n, "put "+records[0].ID+" and others", func() ([]error, error) {
		errs := make([]error, len(records))
		for i, r := range records {
			_, errs[i] = n.s.put(r)
		}
		return errs, nil
	})
}

func (n *network) Delete(ctx context.Context, r cms.Record) error {
	_, err := call(ctx, n, "delete "+r.ID, func() (struct{}, error) {
		if n.s.records[r.ID].Revision != r.Revision {
			return struct{}{}, cms.ErrConflict
		}
		delete(n.s.records, r.ID)
		return struct{}{}, nil
	})
	return err
}

func (n *network) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return func(yield func(cms.Record, error) bool) {
		all, err := call(ctx, n, "list "+kind, func() ([]cms.Record, error) {
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
