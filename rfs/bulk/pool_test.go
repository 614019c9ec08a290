package bulk

import (
	"bytes"
	"context"
	"testing"

	"github.com/rfsd/rfsd/rfs/doc"
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
			l := New(Options{Sender: taker{}, MaxBytes: c.maxBytes, Pool: pool})
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
				l := New(Options{Sender: taker{}, Pool: pool, MaxInFlight: 2})
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
