package importer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// mortal is a process that dies at its n-th step: a call of the store or a request to the target.
// A dead process does nothing any more; of its last step only the other side knows
// whether it was done.
type mortal struct {
	cms.Store
	target bulk.Sender
	kill   context.CancelFunc

	mu    sync.Mutex
	left  int  // steps to live
	after bool // the last step is still done
	dead  bool
}

var errDead = fmt.Errorf("this process is dead: %w", fault.ErrUnavailable)

// step reports whether a step is done, and whether its answer arrives.
func (m *mortal) step() (do, answer bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return false, false
	}
	if m.left--; m.left > 0 {
		return true, true
	}
	m.dead = true
	m.kill()
	return m.after, false
}

func (m *mortal) died() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// try does one step.
func try[T any](m *mortal, f func() (T, error)) (T, error) {
	var none T
	do, answer := m.step()
	if !do {
		return none, errDead
	}
	v, err := f()
	if !answer {
		return none, errDead
	}
	return v, err
}

func (m *mortal) Now(ctx context.Context) (time.Time, time.Duration, error) {
	return m.Store.Now(ctx) // reading a clock leaves no trace: it is no step
}

func (m *mortal) Record(ctx context.Context, id string) (cms.Record, error) {
	return try(m, func() (cms.Record, error) { return m.Store.Record(ctx, id) })
}

func (m *mortal) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	return try(m, func() (cms.Revision, error) { return m.Store.Put(context.WithoutCancel(ctx), r) })
}

func (m *mortal) Delete(ctx context.Context, r cms.Record) error {
	_, err := try(m, func() (int, error) { return 0, m.Store.Delete(context.WithoutCancel(ctx), r) })
	return err
}

func (m *mortal) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	seq, err := try(m, func() (iter.Seq2[cms.Record, error], error) { return m.Store.List(ctx, kind), nil })
	if err != nil {
		return func(yield func(cms.Record, error) bool) { yield(cms.Record{}, err) }
	}
	return seq
}

// OfKind is no step: it only looks where the items are.
func (m *mortal) OfKind(ctx context.Context, kind string) (cms.Store, error) {
	of, err := m.Store.OfKind(ctx, kind)
	m.Store = of
	return m, err
}

func (m *mortal) Create(ctx context.Context, items []cms.Item) (int, error) {
	return try(m, func() (int, error) { return m.Store.Create(context.WithoutCancel(ctx), items) })
}

func (m *mortal) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	var v cms.Result
	it, err := try(m, func() (it cms.Item, err error) {
		it, v, err = m.Store.Apply(context.WithoutCancel(ctx), id, t)
		return it, err
	})
	return it, v, err
}

func (m *mortal) Get(ctx context.Context, id string) (cms.Item, error) {
	return try(m, func() (cms.Item, error) { return m.Store.Get(ctx, id) })
}

func (m *mortal) Candidates(ctx context.Context, grace time.Duration, n int) ([]cms.Item, error) {
	return try(m, func() ([]cms.Item, error) { return m.Store.Candidates(ctx, grace, n) })
}

func (m *mortal) Open(ctx context.Context) (cms.Open, error) {
	return try(m, func() (cms.Open, error) { return m.Store.Open(ctx) })
}

func (m *mortal) Scan(ctx context.Context) iter.Seq2[cms.Item, error] {
	seq, err := try(m, func() (iter.Seq2[cms.Item, error], error) { return m.Store.Scan(ctx), nil })
	if err != nil {
		return func(yield func(cms.Item, error) bool) { yield(cms.Item{}, err) }
	}
	return seq
}

func (m *mortal) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	return try(m, func() (bulk.Result, error) { return m.target.Send(context.WithoutCancel(ctx), body, n) })
}

// crash runs a process that dies at a step, beside or before another one that lives, and demands the
// right end. It says whether the process died at all.
// With together unset, a file appears in between that sorts before all others: unless nothing had begun, it is
// refused until it is gone.
func crash(t *testing.T, step int, after, together bool) (died bool) {
	t.Helper()
	inBubble(t, func(t *testing.T, w *world) {
		want, counts := w.small()
		slow := func(i *importer.Import) {
			i.Workers, i.Lease, i.Bulk.MaxBytes, i.Bulk.MaxInFlight = 1, 12*time.Second, 500, 1
		}
		w.target.takes = 3 * time.Second // so that windows are renewed, and taken over in their midst
		ctx, kill := context.WithCancel(t.Context())
		defer kill()
		m := &mortal{Store: w.store, target: w.target, kill: kill, left: step, after: after}
		victim := w.node(func(i *importer.Import) {
			i.Store = m
			i.Destination = engine.ToCluster(m, engine.Limits{Connections: 64})
		}, slow)
		ended := make(chan error)
		go func() {
			_, err := victim.Run(ctx)
			ended <- err
		}()
		if !together {
			if err := <-ended; err != nil && !m.died() {
				t.Error(err)
			}
			w.write("0.ndjson", `{"index":{"_index":"new","_id":"1"}}`+"\n{}\n")
		}
		other := func(i *importer.Import) { i.Window = 700 } // the parts are those of the first setup
		s, err := w.node(slow, other).Run(t.Context())
		if errors.Is(err, fault.ErrConfig) && !together {
			rename(t, w.dir, "0.ndjson", "0.gone")
			s, err = w.node(slow, other).Run(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
		if together {
			if err := <-ended; err != nil && !m.died() {
				t.Error(err)
			}
		}
		if w.target.docs["new/1"] != "" {
			want["new/1"] = "{}"
			counts.Documents, counts.Indexed, counts.Bytes = counts.Documents+1, counts.Indexed+1, counts.Bytes+2
		}
		w.arrived(want)
		if !s.Complete || once(s.Counts) != counts || s.GivenUp != 0 {
			t.Errorf("%+v, want %+v", s, counts)
		}
		failedOnce(t, w.failed, "a3")
		if died = m.died(); t.Failed() {
			t.Logf("death at step %d, after %v, together %v", step, after, together)
		}
	})
	return died
}

// small is a little corpus: three files, one document that is refused.
func (w *world) small() (map[string]string, importer.Counts) {
	want := map[string]string{}
	var c importer.Counts
	for name, documents := range map[string]int{"a.ndjson": 24, "b.ndjson.gz": 6, "c.ndjson": 8} {
		text := ""
		for n := range documents {
			id := fmt.Sprintf("%s%d", name[:1], n)
			source := fmt.Sprintf(`{"n":%d,"fill":"%060d"}`, n, n)
			text += fmt.Sprintf(`{"index":{"_index":"i","_id":%q}}`+"\n%s\n", id, source)
			c.Documents++
			c.Bytes += int64(len(source))
			if id == "a3" {
				c.Failed++
				continue
			}
			c.Indexed++
			want["i/"+id] = source
		}
		w.write(name, text)
	}
	w.target.refuse = func(id string) int {
		if id == "a3" {
			return 400
		}
		return 0
	}
	return want, c
}

func TestWhicheverProcessDiesAtWhateverStepEveryDocumentArrivesAndIsCountedOnce(t *testing.T) {
	every := 5
	if os.Getenv("RFSD_IMPORT") == "all" {
		every = 1
	}
	first := 1
	for _, together := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			step := first
			for crash(t, step, after, together) && !t.Failed() {
				step += every
			}
			if step < 30 {
				t.Errorf("only %d steps", step)
			}
			t.Logf("died at steps up to %d, after %v, together %v", step, after, together)
			first += 5 // other steps than before
		}
	}
}

func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	m.kill()
}

func TestAWindowThatIsTakenOverGoesOnWhereItsHolderReported(t *testing.T) {
	for _, name := range []string{"x.ndjson", "x.ndjson.zst"} {
		inBubble(t, func(t *testing.T, w *world) {
			text, want := "", map[string]string{}
			for n := range 60 {
				id, source := fmt.Sprint(n), fmt.Sprintf(`{"n":%d,"fill":"%060d"}`, n, n)
				text += fmt.Sprintf(`{"index":{"_index":"i","_id":%q}}`+"\n%s\n", id, source)
				want["i/"+id] = source
			}
			w.write(name, text)
			w.target.takes = 3 * time.Second
			slow := func(i *importer.Import) {
				i.Workers, i.Lease, i.Bulk.MaxBytes, i.Bulk.MaxInFlight, i.Window = 1, 12*time.Second, 600, 1, 1<<20
			}
			ctx, kill := context.WithCancel(t.Context())
			m := &mortal{Store: w.store, target: w.target, kill: kill, left: 1 << 30}
			ended := make(chan error)
			go func() {
				_, err := w.node(slow, func(i *importer.Import) {
					i.Store = m
					i.Destination = engine.ToCluster(m, engine.Limits{Connections: 64})
				}).Run(ctx)
				ended <- err
			}()
			time.Sleep(25 * time.Second) // some eight requests
			m.die()
			<-ended
			s := run(t, w.node(slow))
			w.arrived(want)
			if s.Documents != 60 || s.Indexed != 60 || s.Windows < 1 {
				t.Errorf("%+v", s)
			}
			if w.target.sent >= 75 || w.target.sent < 60 {
				t.Errorf("%d documents were sent for 60: the window started anew", w.target.sent)
			}
		})
	}
}

func TestAWindowThatKillsItsHoldersIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, counts := w.small()
		for k := range want { // those of b: a process that sends one of them dies
			if k[2] == 'b' {
				delete(want, k)
				counts.Documents--
				counts.Indexed--
				counts.Bytes -= int64(len(`{"n":1,"fill":""}`) + 60)
			}
		}
		few := func(i *importer.Import) { i.Workers, i.MaxAttempts, i.Lease = 1, 3, 12*time.Second }
		deaths := 0
		for ; deaths < 30 && w.dies(few); deaths++ {
			time.Sleep(time.Minute)
		}
		if deaths < 4 {
			t.Errorf("it was given up after %d deaths", deaths)
		}
		s := run(t, w.node(few))
		w.arrived(want)
		if !s.Complete || once(s.Counts) != counts || s.GivenUp != 1 || len(s.Problems) != 1 || s.Problems[0].File != "b.ndjson.gz" {
			t.Errorf("%+v, want %+v", s, counts)
		}
	})
}

// dies runs a process that one of the windows kills, and says whether it did.
func (w *world) dies(change func(*importer.Import)) bool {
	w.t.Helper()
	ctx, kill := context.WithCancel(w.t.Context())
	m := &mortal{Store: w.store, target: w.target, kill: kill, left: 1 << 30}
	_, err := w.node(change, func(i *importer.Import) {
		i.Store = m
		i.Destination = engine.ToCluster(&deadly{m}, engine.Limits{Connections: 64})
	}).Run(ctx)
	return err != nil || m.died()
}

// deadly kills who sends a document of the second file.
type deadly struct{ *mortal }

func (d *deadly) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if bytes.Contains(body, []byte(`"_id":"b`)) {
		d.die()
	}
	return d.mortal.Send(ctx, body, n)
}
