package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// replaced is the repository after the source has deleted every snapshot: a new catalog, and only the blobs that are kept.
func replaced(m memory, kept ...string) memory {
	out := memory{"index-99": []byte(`{"snapshots":[],"indices":{}}`), "index.latest": {0, 0, 0, 0, 0, 0, 0, 99}}
	for _, name := range kept {
		out[name] = m[name]
	}
	return out
}

func TestASnapshotDeletedDuringTheRunIsNamed(t *testing.T) {
	m := realRepositories(t)["7.10.2-compressed"]
	x := firstIndex(t, m)
	shard, err := OpenShard(t.Context(), m, x.Locator, 0)
	if err != nil {
		t.Fatal(err)
	}
	var data File
	for _, f := range shard.Files {
		if !f.Virtual() {
			data = f
			break
		}
	}
	read := func(m memory) error {
		s, err := OpenShard(t.Context(), m, x.Locator, 0)
		if err != nil {
			return err
		}
		f, err := s.Directory().Open(data.Name)
		if err != nil {
			return err
		}
		return f.ReadAt(t.Context(), make([]byte, 1), 0)
	}
	metadata := func(m memory) error { _, err := x.Locator.Index(t.Context(), m); return err }
	blob := shard.Path + "/" + data.Blob
	for _, c := range []struct {
		name     string
		m        memory
		do       func(memory) error
		deleted  bool
		category error
	}{
		{"the manifest of a shard is gone with its snapshot", replaced(m), read, true, ErrShardMissing},
		{"a file of a shard is gone with its snapshot", replaced(m, shard.Manifest), read, true, fault.ErrCorrupt},
		{"metadata of an index is gone with its snapshot", replaced(m), metadata, true, fault.ErrCorrupt},
		{"a file is lost, but the snapshot is listed", m.without(blob), read, false, fault.ErrCorrupt},
		{"metadata is lost, but the snapshot is listed", m.without(x.Locator.MetaBlob), metadata, false, fault.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.do(c.m)
			if !errors.Is(err, c.category) || errors.Is(err, ErrDeleted) != c.deleted {
				t.Errorf("%v", err)
			}
			if c.deleted && (!strings.Contains(err.Error(), x.Locator.SnapshotName) || !strings.Contains(err.Error(), "index-99")) {
				t.Errorf("neither snapshot nor catalog is named: %v", err)
			}
		})
	}
}

// rotating is a repository whose catalog is replaced between the listing and the reading, so many times.
type rotating struct {
	memory
	times *int
	mu    *sync.Mutex
}

func (r rotating) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return func(yield func(repo.Blob, error) bool) {
		for b, err := range r.memory.List(ctx, prefix) {
			if !yield(b, err) {
				return
			}
		}
		if prefix == "index-" && *r.times > 0 {
			*r.times--
			r.rotate()
		}
	}
}

func (r rotating) rotate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range 200 {
		name := fmt.Sprintf("index-%d", n)
		if b, ok := r.memory[name]; ok {
			delete(r.memory, name)
			r.memory[fmt.Sprintf("index-%d", n+1)] = b
			r.memory["index.latest"] = []byte{0, 0, 0, 0, 0, 0, 0, byte(n + 1)}
			return
		}
	}
}

func (r rotating) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory.Open(ctx, name, off, n)
}

func TestACatalogThatIsReplacedWhileItIsReadIsReadAgain(t *testing.T) {
	m := realRepositories(t)["7.10.2-compressed"].without()
	times := 2
	c, err := OpenCatalog(t.Context(), rotating{m, &times, &sync.Mutex{}})
	if err != nil || len(c.Snapshots) == 0 || times != 0 {
		t.Fatalf("%v, %d rotations left", err, times)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings of a catalog that is gone: %q", c.Warnings)
	}
	// One that is missing permanently is damage all the same.
	lost := memory{"index.latest": {0, 0, 0, 0, 0, 0, 0, 7}}
	if _, err := OpenCatalog(t.Context(), lost); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}
