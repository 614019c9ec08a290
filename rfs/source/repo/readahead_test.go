package repo_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// distant answers each request after a time; the bytes then come at once.
type distant struct {
	repo.Repository
	content []byte
	after   time.Duration
	fail    error
}

func (d distant) Open(ctx context.Context, _ string, off, n int64) (io.ReadCloser, error) {
	select {
	case <-time.After(d.after):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if d.fail != nil {
		return nil, d.fail
	}
	return io.NopCloser(bytes.NewReader(d.content[off : off+n])), nil
}

// readSlowly reads a stream, each of whose chunks keeps the reader busy for a time, and returns how long it took.
func readSlowly(t *testing.T, r repo.Repository, n, chunk int, busy time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	rc, err := r.Open(t.Context(), "b", 0, int64(n))
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	b := make([]byte, chunk)
	for range n / chunk {
		if _, err := io.ReadFull(rc, b); err != nil {
			t.Fatal(err)
		}
		time.Sleep(busy)
	}
	return time.Since(begin)
}

func TestALongStreamWaitsForOneRoundTripBeforeItsFirstChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunk = 10
		r := repo.NewReadAhead(distant{content: make([]byte, 5*chunk), after: 50 * time.Millisecond}, repo.ReadAheadOptions{Chunk: chunk, Depth: 4})
		if took := readSlowly(t, r, 5*chunk, chunk, 0); took != 50*time.Millisecond {
			t.Errorf("five chunks took %v", took)
		}
	})
}

// TestReadAheadFollowsBandwidthAndDelay: a reader that takes 5 ms for a chunk needs ten on their way where each takes 50 ms.
func TestReadAheadFollowsBandwidthAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunk, chunks, busy = 10, 200, 5 * time.Millisecond
		content := make([]byte, chunks*chunk)
		options := repo.ReadAheadOptions{Chunk: chunk, Depth: 4, Budget: 16 * chunk}
		r := repo.NewReadAhead(distant{content: content, after: 50 * time.Millisecond}, options)
		if took := readSlowly(t, r, len(content), chunk, busy); took > chunks*busy+200*time.Millisecond {
			t.Errorf("%v beside %v without delay", took, chunks*busy)
		}
		if took := readSlowly(t, r, len(content), chunk, busy); took > chunks*busy+60*time.Millisecond {
			t.Errorf("a second stream does not start with what the first has found: %v", took)
		}
	})
}

// TestTheFirstStreamAsksForWhatTheDelayNeeds: the short requests before it have shown how long the repository takes to answer.
func TestTheFirstStreamAsksForWhatTheDelayNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunk, chunks = 1 << 20, 20
		content := make([]byte, chunks*chunk)
		for delay, want := range map[time.Duration]int{100 * time.Microsecond: 5, 12 * time.Millisecond: 13, time.Second: 17} {
			var log []repo.Request
			counting := repo.NewCounting(distant{content: content, after: delay})
			r := repo.NewReadAhead(counting, repo.ReadAheadOptions{Chunk: chunk, Depth: 4, Budget: 16 * chunk})
			short, err := r.Open(t.Context(), "b", 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			short.Close()
			counting.Log(&log)
			rc, err := r.Open(t.Context(), "b", 0, int64(len(content)))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if len(log) != want {
				t.Errorf("%v: %d requests at the beginning, want %d", delay, len(log), want)
			}
			rc.Close()
		}
	})
}

// TestAStreamOpenedAheadGoesOnWhereTheLastEnds: what the last does not ask for any more is asked for of the next, before that is read.
func TestAStreamOpenedAheadGoesOnWhereTheLastEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunk, chunks, busy = 10, 60, 5 * time.Millisecond
		content := make([]byte, chunks*chunk)
		r := repo.NewReadAhead(distant{content: content, after: 50 * time.Millisecond}, repo.ReadAheadOptions{Chunk: chunk, Depth: 4, Budget: 16 * chunk})
		readSlowly(t, r, chunk, chunk, 0) // so that the delay is known
		open := func() <-chan io.ReadCloser {
			opened := make(chan io.ReadCloser, 1)
			go func() {
				rc, err := r.Open(t.Context(), "b", 0, int64(len(content)))
				if err != nil {
					t.Error(err)
				}
				opened <- rc
			}()
			return opened
		}
		begin := time.Now()
		next, b := open(), make([]byte, chunk)
		for range 3 {
			rc := <-next
			for n := range chunks {
				if n == chunks-14 { // less than what runs ahead
					next = open()
				}
				if _, err := io.ReadFull(rc, b); err != nil {
					t.Fatal(err)
				}
				time.Sleep(busy)
			}
			rc.Close()
		}
		if took := time.Since(begin); took > 50*time.Millisecond+3*chunks*busy {
			t.Errorf("%v beside %v without delay", took, 3*chunks*busy)
		}
		(<-next).Close()
	})
}

// TestASlowReaderIsNotReadAheadOfFurtherThanAtFirst: what lies ahead is memory.
func TestASlowReaderIsNotReadAheadOfFurtherThanAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunk, chunks = 10, 100
		content := make([]byte, chunks*chunk)
		r := repo.NewReadAhead(distant{content: content, after: 50 * time.Millisecond}, repo.ReadAheadOptions{Chunk: chunk, Depth: 4, Budget: 16 * chunk})
		readSlowly(t, r, len(content), chunk, time.Millisecond) // quickly
		readSlowly(t, r, len(content), chunk, time.Second)
		var log []repo.Request
		counting := repo.NewCounting(distant{content: content, after: 50 * time.Millisecond})
		counting.Log(&log)
		r.Repository = counting
		rc, err := r.Open(t.Context(), "b", 0, int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(log) != 5 {
			t.Errorf("%d requests at the beginning", len(log))
		}
		rc.Close()
	})
}

// TestStreamsDivideTheMemoryForReadAhead: one stream does not take what another needs.
func TestStreamsDivideTheMemoryForReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunk, chunks, streams = 10, 50, 4
		content := make([]byte, chunks*chunk)
		r := repo.NewReadAhead(distant{content: content, after: 50 * time.Millisecond}, repo.ReadAheadOptions{Chunk: chunk, Depth: 4, Budget: 16 * chunk})
		readSlowly(t, r, len(content), chunk, time.Millisecond)
		took := make(chan time.Duration, streams)
		for range streams {
			go func() { took <- readSlowly(t, r, len(content), chunk, time.Millisecond) }()
		}
		var least, most time.Duration
		for range streams {
			d := <-took
			if most = max(most, d); least == 0 || d < least {
				least = d
			}
		}
		if most > 2*least {
			t.Errorf("the streams took from %v to %v", least, most)
		}
	})
}

func TestAStreamWhoseFirstChunkFailsLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunk = 10
		r := repo.NewReadAhead(distant{content: make([]byte, 100), after: time.Second, fail: fault.ErrUnavailable}, repo.ReadAheadOptions{Chunk: chunk, Depth: 4, Budget: 4 * chunk})
		if _, err := r.Open(t.Context(), "b", 0, 100); !errors.Is(err, fault.ErrUnavailable) {
			t.Error(err)
		}
		r.Repository = distant{content: make([]byte, 100), after: time.Second}
		if took := readSlowly(t, r, 50, chunk, 0); took != time.Second { // all memory came back
			t.Errorf("five chunks took %v", took)
		}
	})
}
