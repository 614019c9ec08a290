package snapshot

import (
	"bytes"
	"context"
	"io"
	"iter"
	"reflect"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/repo"
)

// below is a repository at a base path of a store.
type below struct {
	store memory
	base  string
}

func (b below) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	return b.store.Open(ctx, b.base+name, off, n)
}

func (b below) Stat(ctx context.Context, name string) (int64, error) {
	return b.store.Stat(ctx, b.base+name)
}

func (b below) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return func(yield func(repo.Blob, error) bool) {
		for blob, err := range b.store.List(ctx, b.base+prefix) {
			blob.Name = strings.TrimPrefix(blob.Name, b.base)
			if !yield(blob, err) {
				return
			}
		}
	}
}

func (b below) URI() string { return "memory" }

func (b below) Store() (repo.Repository, bool) { return whole{b.store}, true }

type whole struct{ memory }

func (whole) URI() string { return "memory" }

// TestShardsWhoseHashStandsBeforeTheBasePathAreRead: <hash>/<base>/indices/<id>/<shard>
// lies outside of a repository at <base>, in the same store.
func TestShardsWhoseHashStandsBeforeTheBasePathAreRead(t *testing.T) {
	m := realRepositories(t)["os2.19.4-hashed-path"]
	loc, _ := hashedShard(t, m)
	store := memory{}
	for name, b := range m {
		hash, rest, _ := strings.Cut(name, "/")
		if strings.HasPrefix(rest, "indices/") && hash != "indices" {
			store[hash+"/base/"+rest] = b
			continue
		}
		if strings.HasPrefix(name, "snapshot_shard_paths/") {
			b = bytes.ReplaceAll(b, []byte("/indices/"), []byte("/base/indices/"))
		}
		store["base/"+name] = b
	}
	for shard := range 2 {
		want, err := OpenShard(t.Context(), m, loc, shard)
		if err != nil {
			t.Fatal(err)
		}
		got, err := OpenShard(t.Context(), below{store, "base/"}, loc, shard)
		if err != nil || !reflect.DeepEqual(got.Files, want.Files) {
			t.Fatalf("shard %d: %v", shard, err)
		}
		f, err := got.Directory().Open(got.Files[0].Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.ReadAt(t.Context(), make([]byte, 1), 0); err != nil {
			t.Errorf("shard %d: %v", shard, err)
		}
	}
}
