package export

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestCompression(t *testing.T) {
	for _, c := range []struct {
		in     Compression
		method Compression
		valid  bool
	}{
		{"", None, true}, {"none", None, true}, {"gzip", Gzip, true}, {"zstd", Zstd, true},
		{"gzip:1", Gzip, true}, {"gzip:9", Gzip, true}, {"zstd:1", Zstd, true}, {"zstd:22", Zstd, true},
		{"none:1", None, false}, {"gzip:0", Gzip, false}, {"gzip:10", Gzip, false}, {"zstd:23", Zstd, false},
		{"zstd:", Zstd, false}, {"zstd:fast", Zstd, false}, {"zstd:-1", Zstd, false}, {"lz4", "lz4", false}, {"ZSTD", "ZSTD", false},
	} {
		t.Run(string(c.in), func(t *testing.T) {
			if got := c.in.Method(); got != c.method {
				t.Errorf("method %q", got)
			}
			err := c.in.Check()
			if (err == nil) != c.valid || err != nil && !errors.Is(err, fault.ErrConfig) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestHigherLevelsMakeSmallerFiles(t *testing.T) {
	body := string(lines(1 << 18))
	last := int64(len(body)) / 2
	for _, c := range []Compression{"gzip:1", "gzip", "zstd:1", "zstd:19"} {
		if c == "zstd:1" {
			last = int64(len(body)) / 2
		}
		dir := t.TempDir()
		d := enter(t, dirHome(dir), "w", c)
		f := create(t, d, "logs", 0, 0)
		send(t, f, body)
		commit(t, f)
		finish(t, d, "")
		size := manifest(t, dirHome(dir)).Bytes
		if size >= last {
			t.Errorf("%s: %d of %d bytes, want less than %d", c, size, len(body), last)
		}
		last = size
	}
}

// slow is a file system whose files take a second for each write and report those that come after the end.
type slow struct {
	system
	late atomic.Int64
}

func (s *slow) OpenFile(path string, flag int, perm fs.FileMode) (Handle, error) {
	h, err := s.system.OpenFile(path, flag, perm)
	return &slowFile{Handle: h, fs: s}, err
}

type slowFile struct {
	Handle
	fs     *slow
	closed atomic.Bool
}

func (f *slowFile) Write(b []byte) (int, error) {
	time.Sleep(time.Second)
	if f.closed.Load() {
		f.fs.late.Add(1)
	}
	return f.Handle.Write(b)
}

func (f *slowFile) Close() error {
	f.closed.Store(true)
	return f.Handle.Close()
}

// TestCompressorEnds holds that a part's compressor writes nothing any more once the part was finished or given up.
func TestCompressorEnds(t *testing.T) {
	body := lines(3 << 20)
	for _, c := range []Compression{None, Gzip, Zstd, "zstd:3"} {
		for name, end := range map[string]func(*File) error{
			"committed": func(f *File) error { return f.Commit(t.Context()) },
			"given up":  (*File).Abort,
		} {
			t.Run(string(c)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					files := &slow{}
					d, err := OpenOn(files, t.TempDir(), "w", c)
					if err != nil {
						t.Fatal(err)
					}
					f := create(t, d, "logs", 0, 0)
					send(t, f, string(body))
					if err := end(f); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
					if n := files.late.Load(); n > 0 {
						t.Errorf("%d writes after the file was closed", n)
					}
					if err := d.Close(); err != nil {
						t.Fatal(err)
					}
				})
			})
		}
	}
}

// lines returns about n bytes of pairs of lines that look like a service's log.
func lines(n int) []byte {
	r := rand.New(rand.NewPCG(7, 8))
	words := []string{"connection", "established", "timeout", "upstream", "request", "session", "refused", "cache", "miss", "latency"}
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, `{"index":{"_index":"logs","_id":"%016x"}}`+"\n"+`{"@timestamp":%d,"level":"INFO","host":"node-%03d","trace":"%016x","message":"`, r.Uint64(), 1704067200000+i, r.IntN(60), r.Uint64())
		for range 4 + r.IntN(30) {
			b = fmt.Appendf(b, "%s=%d ", words[r.IntN(len(words))], r.IntN(1<<(4+r.IntN(14))))
		}
		b = append(b, "\"}\n"...)
	}
	return b
}
