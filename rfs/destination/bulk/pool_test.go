package bulk

import (
	"bytes"
	"context"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// TestPool hands the body of a Loader that ended to the next one, within bounds.
func TestPool(t *testing.T) {
	for _, c := range []struct {
		name     string
		source   int // bytes of the only document
		maxBytes int
		kept     bool
	}{
		{"a body serves the next lease", 5000, 10000, true},
		{"the body of a giant document goes", 50000, 10000, false},
		{"a body beyond the bound of all goes", maxIdle, maxIdle, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := &Pool{}
			l := New(t.Context(), Options{Sender: taker{}, MaxBytes: c.maxBytes, Pool: pool})
			if err := l.Add(t.Context(), sized(0, c.source)); err != nil {
				t.Fatal(err)
			}
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			b := pool.get()
			if kept := cap(b.body) >= c.source; kept != c.kept {
				t.Errorf("kept: %t", kept)
			}
			if len(b.body) > 0 || len(b.items) > 0 || b.done || b.weight > 0 {
				t.Errorf("not empty: %d bytes, %d items", len(b.body), len(b.items))
			}
			if pool.idle != 0 {
				t.Errorf("%d bytes idle in an empty pool", pool.idle)
			}
		})
	}
}

// BenchmarkLease loads 10 MB of documents of 900 and of 40 bytes, as a lease does.
func BenchmarkLease(b *testing.B) {
	for _, c := range []struct {
		name   string
		source int
	}{{"900", 900}, {"40", 40}} {
		b.Run(c.name, func(b *testing.B) {
			pool := &Pool{}
			n := 10 << 20 / c.source
			d := sized(0, c.source)
			b.SetBytes(int64(n * c.source))
			b.ReportAllocs()
			for b.Loop() {
				l := New(b.Context(), Options{Sender: taker{}, Pool: pool, MaxInFlight: 2})
				for i := range n {
					d.Ordinal = int64(i)
					if err := l.Add(b.Context(), d); err != nil {
						b.Fatal(err)
					}
				}
				if err := l.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// taker takes every body.
type taker struct{}

func (taker) Send(context.Context, []byte, int) (Result, error) { return Result{}, nil }

// sized returns a document with a source of n bytes.
func sized(ordinal int64, n int) *doc.Document {
	return &doc.Document{Ordinal: ordinal, Index: []byte("logs"), ID: []byte("AVx3b1c2d3e4f5g6h7i8"), Source: bytes.Repeat([]byte{'x'}, n)}
}

// TestSendNow: the memory of a long document comes back when it is settled, also while an earlier body is under way, and at
// once when nothing is buffered.
func TestSendNow(t *testing.T) {
	first, later := make(chan struct{}), make(chan struct{})
	to := &target{answer: func(_ context.Context, ids []string, _ int) (Result, error) {
		if ids[0] == "0" {
			<-first
		}
		return Result{}, nil
	}}
	l := New(t.Context(), Options{Sender: to, MaxInFlight: 2})
	at := 0
	released := func() { at++ }
	if err := l.SendNow(t.Context(), released); err != nil || at != 1 {
		t.Errorf("nothing buffered: %d, %v", at, err)
	}
	for i := range int64(2) {
		d := sized(i, 1000)
		d.ID = []byte{'0' + byte(i)}
		if err := l.Add(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := l.SendNow(t.Context(), func() {
			if i == 1 {
				close(later)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	<-later
	l.mu.Lock()
	if last := l.queue[len(l.queue)-1]; l.watermark != 0 || !last.done || last.body != nil {
		t.Errorf("watermark %d; done %t with a body of %d bytes", l.watermark, last.done, len(last.body))
	}
	l.mu.Unlock()
	close(first)
	if err := l.Flush(t.Context()); err != nil || l.Watermark() != 2 {
		t.Errorf("watermark %d, %v", l.Watermark(), err)
	}
}

// TestABodyGrowsInFewSteps fills a body with documents of 100 bytes: it is copied a few times while it is small, then it has all
// its memory.
func TestABodyGrowsInFewSteps(t *testing.T) {
	const most = 4 << 20
	l := New(t.Context(), Options{Sender: taker{}, MaxBytes: most})
	var sizes, items []int
	for i := range most / 200 {
		if err := l.Add(t.Context(), sized(int64(i), 100)); err != nil {
			t.Fatal(err)
		}
		if n := cap(l.cur.body); len(sizes) == 0 || sizes[len(sizes)-1] != n {
			sizes = append(sizes, n)
		}
		if n := cap(l.cur.items); cap(l.cur.body) >= most && (len(items) == 0 || items[len(items)-1] != n) {
			items = append(items, n)
		}
	}
	if len(sizes) > 14 || sizes[len(sizes)-1] > most*5/4 || len(items) != 1 {
		t.Errorf("a body of %d bytes grew to %v, its items to %v", len(l.cur.body), sizes, items)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}
