package lucene

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
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
// for the commit, and one for the documents of all segments, as long as these are short.
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
				if most := small + min(alive, 1); n > most {
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

// watched is a directory that counts the streams that are open, and breaks those of one file.
type watched struct {
	mapDir
	broken string
	open   *atomic.Int64
}

func (d watched) Open(name string) (File, error) {
	f, err := d.mapDir.Open(name)
	return watchedFile{f, d, name}, err
}

type watchedFile struct {
	File
	dir  watched
	name string
}

func (f watchedFile) Stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if f.name == f.dir.broken {
		return nil, fmt.Errorf("no stream: %w", fault.ErrUnavailable)
	}
	s, err := f.File.Stream(ctx, off, n)
	f.dir.open.Add(1)
	return watchedStream{s, f.dir.open}, err
}

type watchedStream struct {
	io.ReadCloser
	open *atomic.Int64
}

func (s watchedStream) Close() error {
	s.open.Add(-1)
	return s.ReadCloser.Close()
}

// TestAStreamThatFailsAheadTakesNothingFromTheSegmentsBefore also holds that all streams are closed, wherever a reader ends.
func TestAStreamThatFailsAheadTakesNothingFromTheSegmentsBefore(t *testing.T) {
	tested := 0
	for name, dir := range testShards(t) {
		t.Run(name, func(t *testing.T) {
			var open atomic.Int64
			d := watched{mapDir: dir, open: &open}
			commit, err := Open(t.Context(), d, Options{})
			if err != nil {
				t.Fatal(err)
			}
			var alive []*Segment
			for _, s := range commit.Segments {
				if s.LiveCount > 0 {
					alive = append(alive, s)
				}
			}
			if len(alive) < 2 {
				return
			}
			src, err := alive[1].files.core(".fdt")
			if err != nil {
				t.Fatal(err)
			}
			d.broken = src.name
			if alive[1].Compound {
				d.broken = alive[1].Name + ".cfs"
			}
			for _, broken := range []bool{false, true} {
				if broken {
					if commit, err = Open(t.Context(), d, Options{}); err != nil {
						t.Fatal(err)
					}
				}
				for _, stop := range []int{1, 1 << 30} {
					r, read, err := commit.Reader(ReadOptions{}), int64(0), error(nil)
					for n := 0; n < stop && err == nil; n++ {
						var rec *Record
						if rec, err = r.Next(t.Context()); err == nil {
							read = rec.Ordinal
						}
					}
					switch {
					case stop > 1 && broken && (!errors.Is(err, fault.ErrUnavailable) || read < alive[0].Base || read >= alive[1].Base):
						t.Errorf("read up to %d, then %v", read, err)
					case stop > 1 && !broken && !errors.Is(err, io.EOF):
						t.Error(err)
					}
					if err := r.Close(); err != nil {
						t.Error(err)
					}
					if n := open.Load(); n != 0 {
						t.Errorf("%d streams are open", n)
					}
				}
			}
			tested++
		})
	}
	if tested < 3 {
		t.Errorf("%d shards of several segments", tested)
	}
}

// TestStreamsAreBegunOnlyForWhatComesSoon: what is started takes memory from the segment in progress.
func TestStreamsAreBegunOnlyForWhatComesSoon(t *testing.T) {
	const mega = 1 << 20
	for _, c := range []struct {
		size, left int64
		want       int
	}{{64 * mega, 63 * mega, 1}, {64 * mega, 65 * mega, 0}, {8 * mega, 50 * mega, 2}, {mega / 10, 0, segmentsAhead}} {
		commit := &Commit{}
		for n := range 20 {
			commit.Segments = append(commit.Segments, &Segment{Name: "_0", Base: int64(n), MaxDoc: 1, LiveCount: 1, StoredSize: c.size, files: &files{dir: mapDir{}, segment: "_0"}})
			commit.MaxOrdinal++
		}
		r := commit.Reader(ReadOptions{})
		r.seg = 1
		r.ahead.ctx, r.ahead.cancel = context.WithCancel(t.Context())
		for range 10 { // asked again with each chunk
			r.beginStreams(c.left)
		}
		if n := len(r.ahead.begun); n != c.want {
			t.Errorf("%d bytes before segments of %d: %d streams are started, want %d", c.left, c.size, n, c.want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDocumentsAreAskedForWhileTheCommitIsOpened: a reader from the first ordinal on waits for no round trip of its own, and reads
// what a reader of a commit reads whose streams were not started.
func TestDocumentsAreAskedForWhileTheCommitIsOpened(t *testing.T) {
	tested := 0
	for name, dir := range testShards(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plain, err := Open(t.Context(), dir, Options{})
				if err != nil {
					t.Fatal(err)
				}
				want, checks := ordinalsAndChecks(t, plain)
				began := time.Now()
				commit, err := Open(t.Context(), distant{dir}, Options{Begin: true})
				if err != nil {
					t.Fatal(err)
				}
				opened := time.Since(began) / roundTrip
				got, read := ordinalsAndChecks(t, commit)
				if !slices.Equal(got, want) || !reflect.DeepEqual(read, checks) {
					t.Errorf("ordinals %v of %v, checksums %v of %v", got, want, read, checks)
				}
				series := strings.Contains(name, "timeseries") // ids are in columns
				if alive := len(want); alive > 0 && len(commit.Segments) <= segmentsAhead && !series {
					tested++
					if n := time.Since(began) / roundTrip; n > opened {
						t.Errorf("%d round trips to open, %d with the documents", opened, n)
					}
				}
			})
		})
	}
	if tested < 3 {
		t.Errorf("%d shards with documents", tested)
	}
}

// ordinalsAndChecks reads a commit from end to end.
func ordinalsAndChecks(t *testing.T, c *Commit) (ordinals []int64, checks []Check) {
	t.Helper()
	r := c.Reader(ReadOptions{})
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		ordinals = append(ordinals, rec.Ordinal)
	}
	if err := errors.Join(r.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	return ordinals, r.Checks(c.MaxOrdinal)
}

// TestStreamsOfACommitEnd: streams that were started with the commit are closed with it, with the reader that does not come to them,
// and where the commit cannot be opened.
func TestStreamsOfACommitEnd(t *testing.T) {
	for name, dir := range testShards(t) {
		var open atomic.Int64
		d := watched{mapDir: dir, open: &open}
		for _, use := range []func(c *Commit) error{
			func(*Commit) error { return nil },
			func(c *Commit) error { return c.Reader(ReadOptions{To: 1}).Close() },
			func(c *Commit) error { return c.Reader(ReadOptions{From: 1}).Close() },
			func(c *Commit) error {
				r := c.Reader(ReadOptions{})
				_, err := r.Next(t.Context())
				if c.LiveDocs == 0 || errors.Is(err, io.EOF) {
					err = nil
				}
				return errors.Join(err, r.Close())
			},
		} {
			c, err := Open(t.Context(), d, Options{Begin: true})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := errors.Join(use(c), c.Close()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n := open.Load(); n != 0 {
				t.Errorf("%s: %d streams are open", name, n)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = Open(ctx, d, Options{Begin: true})
		if n := open.Load(); n != 0 {
			t.Errorf("%s: %d streams are open of a commit that is not", name, n)
		}
		broken := maps.Clone(dir)
		for file := range broken {
			if strings.HasSuffix(file, ".fnm") {
				broken[file] = []byte("damage")
				break
			}
		}
		_, _ = Open(t.Context(), watched{mapDir: broken, open: &open}, Options{Begin: true})
		if n := open.Load(); n != 0 {
			t.Errorf("%s: %d streams are open of a damaged commit", name, n)
		}
	}
}

// TestTheColumnOfDeletionsIsReadWithTheOtherShortFiles: it is named in a file that comes with them.
func TestTheColumnOfDeletionsIsReadWithTheOtherShortFiles(t *testing.T) {
	for deleted, want := range map[int32][]string{
		0: {"_0.fdm", "_0.fdt", "_0.fdx", "_0.fnm", "_0_Lucene80_0.dvm"},
		1: {"_0.fdm", "_0.fdt", "_0.fdx", "_0.fnm", "_0_Lucene80_0.dvd", "_0_Lucene80_0.dvm"},
	} {
		compound, err := openSource(mapDir{"_0.cfs": make([]byte, 1<<20)}, "_0.cfs")
		if err != nil {
			t.Fatal(err)
		}
		early := newEarlyReads(t.Context(), nil)
		sections := map[string]section{}
		for n, suffix := range []string{".fdm", ".fdt", ".fdx", ".fnm", "_Lucene80_0.dvd", "_Lucene80_0.dvm"} {
			sections[suffix] = section{int64(n) << 14, 10_000}
		}
		o := segmentOpener{entry: segmentEntry{fieldInfosGen: -1, softDelCount: deleted}, early: early,
			seg: &Segment{files: &files{segment: "_0", compound: compound, sections: sections, early: early}}}
		o.beginParts()
		early.end()
		if got := slices.Sorted(maps.Keys(early.reads)); !slices.Equal(got, want) {
			t.Errorf("%d deleted documents: %q are read early, want %q", deleted, got, want)
		}
	}
}
