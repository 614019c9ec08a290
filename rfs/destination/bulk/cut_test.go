package bulk

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBodiesAreCutByBothLines sends short sources with long action lines: a body is as full as its bound permits, and no longer,
// though what is known before the line is written is the source.
func TestBodiesAreCutByBothLines(t *testing.T) {
	const most = 1000
	var lengths []int
	var ids []string
	s := &target{answer: func(_ context.Context, of []string, n int) (Result, error) {
		lengths, ids = append(lengths, n), append(ids, of...)
		return Result{}, nil
	}}
	l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxBytes: most, MaxInFlight: 1})
	var pairs []int
	var want []string
	for o := range int64(200) {
		d := document(o)
		d.Routing = bytes.Repeat([]byte("r\""), int(o*37%300))
		pairs = append(pairs, len((&lines{op: "index"}).append(nil, d))+len(d.Source)+1)
		want = append(want, string(d.ID))
		if err := l.Add(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var cut []int // of the same documents, by their lengths
	for i, n := range pairs {
		if i == 0 || cut[len(cut)-1]+n > most {
			cut = append(cut, 0)
		}
		cut[len(cut)-1] += n
	}
	if !slices.Equal(lengths, cut) || !slices.Equal(ids, want) {
		t.Errorf("bodies of %v bytes, want %v", lengths, cut)
	}
}

// TestADocumentThatOpensABodyWaitsForItsID adds a document whose line does not fit behind one of the same id: the first must have
// arrived before the second is sent.
func TestADocumentThatOpensABodyWaitsForItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []time.Duration
		begin := time.Now()
		s := &target{answer: func(context.Context, []string, int) (Result, error) {
			time.Sleep(time.Second)
			done = append(done, time.Since(begin))
			return Result{}, nil
		}}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxBytes: 100, MaxInFlight: 2, Ordered: true})
		for o := range int64(2) {
			d := document(7)
			d.Ordinal, d.Routing = o, bytes.Repeat([]byte("r"), 30)
			if err := l.Add(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{time.Second, 2 * time.Second}; !slices.Equal(done, want) {
			t.Errorf("answered after %v, want %v", done, want)
		}
	})
}

// buffers is a Sender that takes everything at once and counts the buffers it is given.
type buffers struct {
	mu   sync.Mutex
	seen map[*byte]int
}

func (s *buffers) Send(_ context.Context, body []byte, _ int) (Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[&body[0]]++
	return Result{}, nil
}

// TestABodyIsSentBeforeTheNextIsFull fills bodies on one core, with a target that takes them at once: a few buffers serve for
// all of them.
func TestABodyIsSentBeforeTheNextIsFull(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := &buffers{seen: map[*byte]int{}}
	l := New(t.Context(), Options{Sender: s, MaxBytes: 4 << 10})
	for o := range int64(10_000) {
		if err := l.Add(t.Context(), sized(o, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.seen) > 4 {
		t.Errorf("%d buffers for bodies that are taken immediately: %v", len(s.seen), s.seen)
	}
}
