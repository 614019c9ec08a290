package repo

import (
	"bytes"
	"context"
	"io"
	"testing"
)

type zeros struct{ Repository }

func (zeros) Open(_ context.Context, _ string, _, n int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(make([]byte, n))), nil
}

// TestStreamsThatAreClosedHoldNoMemory: what the last one read ahead with is left to the garbage collector, wherever it was closed.
func TestStreamsThatAreClosedHoldNoMemory(t *testing.T) {
	const chunk, chunks = 10, 30
	r := NewReadAhead(zeros{}, ReadAheadOptions{Chunk: chunk, Budget: 8 * chunk})
	for _, read := range []int64{0, chunk, 5 * chunk, chunks * chunk, chunks*chunk + 1} {
		rc, err := r.Open(t.Context(), "b", 0, chunks*chunk)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, io.LimitReader(rc, read)); err != nil || n != min(read, chunks*chunk) {
			t.Fatal(n, err)
		}
		if err := rc.Close(); err != nil {
			t.Fatal(err)
		}
		if l := r.load; len(l.streams) != 0 || len(l.free) != 0 || !r.budget.TryAcquire(8*chunk) {
			t.Fatalf("%d bytes read: %d streams, %d chunks of memory are held", read, len(l.streams), len(l.free))
		}
		r.budget.Release(8 * chunk)
	}
}
