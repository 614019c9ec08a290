// Package repotest is the conformance suite of repositories: every implementation must return the same blobs, the same results and the same
// categories of errors.
package repotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Reader is the interface for reading a repository.
type Reader interface {
	Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
	Stat(ctx context.Context, name string) (int64, error)
	List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error]
}

// Repository is the interface under test.
type Repository interface {
	Reader
	URI() string
}

// Run runs the suite. open returns a repository that contains exactly the blobs.
func Run(t *testing.T, open func(t *testing.T, blobs map[string][]byte) Repository) {
	blobs := Blobs()
	r := open(t, blobs)
	t.Run("every range of every blob is what was stored", func(t *testing.T) { ranges(t, r, blobs) })
	t.Run("a missing blob is fs.ErrNotExist", func(t *testing.T) { missing(t, r) })
	t.Run("a range beyond the end is corrupt, never short", func(t *testing.T) { beyond(t, r, blobs) })
	t.Run("names that leave the repository are refused", func(t *testing.T) { names(t, r) })
	t.Run("a listing gives all names with the prefix", func(t *testing.T) { lists(t, r, blobs) })
	t.Run("a cancelled context ends a request", func(t *testing.T) { cancelled(t, r) })
	t.Run("streams may be closed early and read side by side", func(t *testing.T) { sideBySide(t, r, blobs) })
	if strings.Contains(r.URI(), "secret") || !strings.Contains(r.URI(), "://") {
		t.Errorf("URI %q", r.URI())
	}
}

// Blobs returns names and contents like those of real repositories: empty, small, long, and with unusual names.
func Blobs() map[string][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	blobs := map[string][]byte{}
	for name, size := range map[string]int{
		"index-0": 10, "index-10": 300, "index.latest": 8, "snap-a_-b.dat": 1000,
		"indices/x1/0/__0": 0, "indices/x1/0/__1": 1, "indices/x1/0/___zjE-4k": 70_000,
		"indices/x1/0/__big.part0": 1 << 20, "indices/x1/0/__big.part1": 1<<20 - 1,
		"indices/x1/10/snap-a_-b.dat": 77, "indices/x10/0/index-4": 5,
		"indices/with space+plus%25&ü/meta.dat": 9, "q11100001100000/indices/x1/0/__9": 4096,
	} {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		blobs[name] = b
	}
	return blobs
}

func read(ctx context.Context, r Repository, name string, off, n int64) ([]byte, error) {
	rc, err := r.Open(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(rc)
	return b, errors.Join(err, rc.Close())
}

func ranges(t *testing.T, r Repository, blobs map[string][]byte) {
	for name, want := range blobs {
		size := int64(len(want))
		got, err := r.Stat(t.Context(), name)
		if err != nil || got != size {
			t.Errorf("stat %s: %d, %v; stored %d", name, got, err, size)
		}
		cases := [][2]int64{{0, -1}, {0, size}, {0, 0}, {size / 2, size - size/2}, {size / 3, size / 3}, {0, min(size, 1)}}
		if size > 0 {
			cases = append(cases, [2]int64{size - 1, 1}, [2]int64{size - 1, -1}, [2]int64{size / 2, -1})
		}
		for _, c := range cases {
			off, end := c[0], c[0]+c[1]
			if c[1] < 0 {
				end = size
			}
			b, err := read(t.Context(), r, name, off, c[1])
			if err != nil || !bytes.Equal(b, want[off:end]) {
				t.Errorf("%s[%d,+%d): %d bytes, %v", name, off, c[1], len(b), err)
			}
		}
		rc, err := r.Open(t.Context(), name, size/2, size-size/2)
		if err != nil {
			t.Fatal(err)
		}
		if total, ok := repo.Total(rc); ok && total != size {
			t.Errorf("%s: a stream states the blob has %d bytes, it has %d", name, total, size)
		}
		rc.Close()
	}
}

func missing(t *testing.T, r Repository) {
	for _, name := range []string{"nothing", "indices", "indices/x1/0", "indices/x1/0/__2", "index-0/below", "index"} {
		_, err := read(t.Context(), r, name, 0, -1)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %s: %v", name, err)
		}
		if _, err := read(t.Context(), r, name, 3, 10); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open a range of %s: %v", name, err)
		}
		if _, err := r.Stat(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stat %s: %v", name, err)
		}
	}
}

func beyond(t *testing.T, r Repository, blobs map[string][]byte) {
	for _, name := range []string{"index-0", "indices/x1/0/__1", "indices/x1/0/__0", "indices/x1/0/__big.part1"} {
		size := int64(len(blobs[name]))
		for _, c := range [][2]int64{{0, size + 1}, {size, 1}, {size + 5, 10}, {size / 2, size + 1}} {
			b, err := read(t.Context(), r, name, c[0], c[1])
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s of %d bytes [%d,+%d): %d bytes, %v", name, size, c[0], c[1], len(b), err)
			}
		}
	}
}

func names(t *testing.T, r Repository) {
	for _, name := range []string{"", ".", "..", "../x", "/index-0", "indices/../index-0", "indices//x1", "./index-0", "indices/x1/0/", "a\x00b", `..\x`} {
		_, err := read(t.Context(), r, name, 0, -1)
		if err == nil || errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("open %q: %v", name, err)
		}
		if _, err := r.Stat(t.Context(), name); err == nil || errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("stat %q: %v", name, err)
		}
	}
}

func lists(t *testing.T, r Repository, blobs map[string][]byte) {
	for _, prefix := range []string{"", "index-", "index", "ind", "indices/", "indices/x1", "indices/x1/", "indices/x1/0/__big", "indices/x1/0/__big.part1", "nothing", "indices/none/", "index-0/x", "q1"} {
		want, got := []string{}, []string{}
		for name, b := range blobs {
			if strings.HasPrefix(name, prefix) {
				want = append(want, fmt.Sprintf("%s %d", name, len(b)))
			}
		}
		for blob, err := range r.List(t.Context(), prefix) {
			if err != nil {
				t.Fatalf("list %q: %v", prefix, err)
			}
			got = append(got, fmt.Sprintf("%s %d", blob.Name, blob.Size))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("list %q:\n%q, stored:\n%q", prefix, got, want)
		}
	}
	n := 0
	for _, err := range r.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("a listing that is left after 2 blobs gave %d", n)
	}
}

func cancelled(t *testing.T, r Repository) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var first error
	for _, err := range r.List(ctx, "") {
		first = err
		break
	}
	if !errors.Is(first, context.Canceled) {
		t.Errorf("list: %v", first)
	}
	if errors.Is(first, fault.ErrUnavailable) {
		t.Errorf("list: the store is blamed: %v", first)
	}
}

func sideBySide(t *testing.T, r Repository, blobs map[string][]byte) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprintf("indices/x1/0/__big.part%d", i%2)
			rc, err := r.Open(t.Context(), name, 0, int64(len(blobs[name])))
			if err != nil {
				t.Error(err)
				return
			}
			b := make([]byte, 1000*(i+1))
			if _, err := io.ReadFull(rc, b); err != nil || !bytes.Equal(b, blobs[name][:len(b)]) {
				t.Errorf("%s: other bytes or %v", name, err)
			}
			if err := rc.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
