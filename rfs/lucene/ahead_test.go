package lucene

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// distant is a directory of which every request takes roundTrip.
type distant struct{ mapDir }

const roundTrip = 50 * time.Millisecond

func (d distant) Open(name string) (File, error) {
	f, err := d.mapDir.Open(name)
	return distantFile{f}, err
}

type distantFile struct{ File }

func (f distantFile) ReadAt(ctx context.Context, p []byte, off int64) error {
	time.Sleep(roundTrip)
	return f.File.ReadAt(ctx, p, off)
}

func (f distantFile) Stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	time.Sleep(roundTrip)
	return f.File.Stream(ctx, off, n)
}

// TestRoundTrips counts the round trips that follow each other when a shard is opened and read: a number
// for the commit, and one per segment, for its documents.
func TestRoundTrips(t *testing.T) {
	const small = 5 // the list of segments, then the small files of all segments in a few groups
	tested := 0
	for name, dir := range testShards(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				commit, err := Open(t.Context(), distant{dir}, Options{})
				if err != nil {
					t.Fatal(err)
				}
				opened := time.Since(began) / roundTrip
				r := commit.Reader(ReadOptions{})
				for err == nil {
					_, err = r.Next(t.Context())
				}
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				n := int(time.Since(began) / roundTrip)
				alive := 0
				for _, s := range commit.Segments {
					if s.LiveCount > 0 {
						alive++
					}
				}
				if alive > 1 {
					tested++
				}
				t.Logf("%d segments: %d round trips, %d of them to open", alive, n, opened)
				if most := small + alive; n > most {
					t.Errorf("%d round trips in a row for %d segments, want at most %d", n, alive, most)
				}
			})
		})
	}
	if tested < 3 {
		t.Errorf("%d shards of several segments", tested)
	}
}

// TestOpeningsEnd closes readers while segments are being opened ahead.
func TestOpeningsEnd(t *testing.T) {
	for name, dir := range testShards(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				commit, err := Open(t.Context(), distant{dir}, Options{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), roundTrip/2)
				defer cancel()
				r := commit.Reader(ReadOptions{})
				if commit.LiveDocs > 0 {
					if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Fatalf("%v before the first answer", err)
					}
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				for _, o := range r.ahead.queue {
					select {
					case <-o.done:
					default:
						t.Error("a segment is still being opened")
					}
				}
			})
		})
	}
}
