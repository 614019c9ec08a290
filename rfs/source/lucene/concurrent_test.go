package lucene

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
)

// TestChecksMayBeAskedWhileAnotherGoroutineReads: progress is recorded next to the reading.
func TestChecksMayBeAskedWhileAnotherGoroutineReads(t *testing.T) {
	for name, dir := range testShards(t) {
		c, err := Open(t.Context(), dir, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := c.Reader(ReadOptions{})
		var reached atomic.Int64
		var wg sync.WaitGroup
		done := make(chan struct{})
		wg.Go(func() {
			for {
				r.Checks(reached.Load())
				select {
				case <-done:
					return
				default:
				}
			}
		})
		for {
			rec, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			reached.Store(rec.Ordinal + 1)
		}
		close(done)
		wg.Wait()
		for _, v := range CombineChecks(r.Checks(c.MaxOrdinal)) {
			if v.Err != nil {
				t.Errorf("%s: %v", name, v.Err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
