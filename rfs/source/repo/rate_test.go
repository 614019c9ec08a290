package repo_test

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/repotest"
	"github.com/rfsd/rfsd/testing/s3server"
)

func TestLimited_KeepsTheContract(t *testing.T) {
	repotest.Run(t, func(t *testing.T, blobs map[string][]byte) repotest.Repository {
		dir := t.TempDir()
		store(t, dir, blobs)
		r, err := repo.Open(t.Context(), "file://"+dir, repo.Options{Rate: throttle.New(1 << 40)})
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}

// TestLimited_ReadersTogetherKeepToTheRate reads by the clock of the test: short and long blobs, with and without read-ahead, by one
// reader and by four.
func TestLimited_ReadersTogetherKeepToTheRate(t *testing.T) {
	const rate, size = 1 << 20, 3 << 20
	dir := t.TempDir()
	store(t, dir, map[string][]byte{"__a": make([]byte, size), "__b": make([]byte, size), "__c": make([]byte, size), "__d": make([]byte, size)})
	for name, c := range map[string]struct {
		ahead   bool
		readers int
	}{"one after the other": {false, 1}, "at the same time": {false, 4}, "with read-ahead": {true, 1}, "with read-ahead, at the same time": {true, 4}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := repo.NewDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				r := repo.Limit(d, throttle.New(rate))
				if c.ahead {
					r = repo.NewReadAhead(repo.NewRetrying(r, retry.Policy{}), repo.ReadAheadOptions{Chunk: 256 << 10})
				}
				begin, names := time.Now(), make(chan string, 4)
				for _, name := range []string{"__a", "__b", "__c", "__d"} {
					names <- name
				}
				close(names)
				var all sync.WaitGroup
				for range c.readers {
					all.Go(func() {
						for name := range names {
							if b, err := repo.ReadAll(t.Context(), partOf{r, size}, name, size); err != nil || len(b) != size {
								t.Errorf("%s: %d bytes, %v", name, len(b), err)
							}
						}
					})
				}
				all.Wait()
				if took := time.Since(begin); took < 12*time.Second-time.Millisecond || took > 12*time.Second+100*time.Millisecond {
					t.Errorf("%d bytes at %d per second took %v, want 12 s", 4*size, rate, took)
				}
			})
		})
	}
}

// TestLimited_AWaitEndsWithItsReader: a reader that is cancelled does not wait for the rate.
func TestLimited_AWaitEndsWithItsReader(t *testing.T) {
	dir := t.TempDir()
	store(t, dir, map[string][]byte{"__a": make([]byte, 1000)})
	synctest.Test(t, func(t *testing.T) {
		d, err := repo.NewDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(stopped) })
		begin := time.Now()
		_, err = repo.ReadAll(ctx, repo.Limit(d, throttle.New(1)), "__a", 1000)
		if took := time.Since(begin); !errors.Is(err, stopped) || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// counted permits everything and counts it.
type counted struct{ bytes atomic.Int64 }

func (c *counted) Take(_ context.Context, n int) error {
	c.bytes.Add(int64(n))
	return nil
}

// TestOpen_EveryByteCountsForTheRate reads from each kind of repository that needs no installed server: each byte is counted once,
// those that are read ahead included.
func TestOpen_EveryByteCountsForTheRate(t *testing.T) {
	const size = 9 << 20 // longer than one range of the read-ahead
	dir := t.TempDir()
	store(t, filepath.Join(dir, "bucket"), map[string][]byte{"base/__a": make([]byte, size)})
	server := s3server.Start(t, dir)
	server.Setenv(t)
	web := httptest.NewServer(files(dir))
	t.Cleanup(web.Close)
	for _, uri := range []string{filepath.Join(dir, "bucket", "base"), "file://" + filepath.Join(dir, "bucket", "base"), "s3://bucket/base", web.URL + "/bucket/base"} {
		t.Run(uri, func(t *testing.T) {
			o, rate := s3Options(server), &counted{}
			o.Rate = rate
			r, err := repo.Open(t.Context(), uri, o)
			if err != nil {
				t.Fatal(err)
			}
			b, err := repo.ReadAll(t.Context(), partOf{r, size}, "__a", size)
			if err != nil || len(b) != size {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			if n := rate.bytes.Load(); n != size {
				t.Errorf("%d of %d bytes were counted", n, size)
			}
		})
	}
}

// partOf opens blobs as a range of a known length, which is read ahead.
type partOf struct {
	repo.Repository
	n int64
}

func (p partOf) Open(ctx context.Context, name string, off, _ int64) (io.ReadCloser, error) {
	return p.Repository.Open(ctx, name, off, p.n)
}
