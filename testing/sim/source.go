package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Fixtures of the worlds: some indices of one lease, and one of a thousand documents.
const (
	smallFixture = "7.10.2-demo"
	longFixture  = "7.10.2-many-chunks"
)

// source is a real snapshot, read once and shared by all worlds.
type source struct {
	blobs  map[string][]byte
	plan   *plan.Plan
	shards map[string][]shardTruth // of an index
}

// shardTruth holds the documents that the reader returns for a shard.
type shardTruth struct {
	docs []document
	end  int64 // number of ordinals
}

type document struct {
	ordinal    int64
	id, source string
}

// sources reads the fixtures.
var sources = sync.OnceValues(func() (map[string]*source, error) {
	all := map[string]*source{}
	for _, name := range []string{smallFixture, longFixture} {
		s, err := readSource(filepath.Join("..", "fixtures", name), "snap1")
		if err != nil {
			return nil, fmt.Errorf("fixture %s: %w", name, err)
		}
		all[name] = s
	}
	return all, nil
})

func readSource(dir, snapshot string) (*source, error) {
	s := &source{blobs: map[string][]byte{}, shards: map[string][]shardTruth{}}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		s.blobs[filepath.ToSlash(rel)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if s.plan, err = plan.New(ctx, memory{blobs: s.blobs}, plan.Request{SnapshotName: snapshot, MultiType: plan.SplitTypes, EmitType: plan.EmitAuto, Sizes: true}); err != nil {
		return nil, err
	}
	for _, x := range s.plan.Indices {
		for n := range x.Entry.Shards {
			t, err := readShard(ctx, memory{blobs: s.blobs}, x.Entry.Locator, n)
			if err != nil {
				return nil, err
			}
			s.shards[x.Name] = append(s.shards[x.Name], t)
		}
	}
	return s, nil
}

func readShard(ctx context.Context, r snapshot.Repository, l snapshot.Locator, n int) (t shardTruth, err error) {
	shard, err := snapshot.OpenShard(ctx, r, l, n)
	if err != nil {
		return t, err
	}
	commit, err := lucene.Open(ctx, shard.Directory(), lucene.Options{})
	if err != nil {
		return t, err
	}
	t.end = commit.MaxOrdinal
	reader := commit.Reader(lucene.ReadOptions{To: t.end})
	defer reader.Close()
	decoder := doc.NewDecoder(l.IndexName, n)
	decoder.SetType(l.Type)
	for {
		rec, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		d, failure := decoder.Decode(rec)
		if failure != nil {
			return t, fmt.Errorf("ordinal %d: %s", rec.Ordinal, failure.Detail)
		}
		t.docs = append(t.docs, document{d.Ordinal, string(d.ID), string(d.Source)})
	}
}

// memory is a repository in memory. Requests of a machine take time.
type memory struct {
	blobs map[string][]byte
	m     *machine // nil: no time passes
}

func (r memory) pause(ctx context.Context, what ...any) error {
	if r.m == nil {
		return nil
	}
	return r.m.wait(ctx, between(r.m.about("repository", what), 10*time.Millisecond, 400*time.Millisecond))
}

// Open reads a part of a blob.
func (r memory) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := r.pause(ctx, name, off); err != nil {
		return nil, err
	}
	b, ok := r.blobs[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if n < 0 {
		n = int64(len(b)) - off
	}
	if off < 0 || off+n > int64(len(b)) {
		return nil, fmt.Errorf("%s: %d bytes at %d of %d", name, n, off, len(b))
	}
	return io.NopCloser(bytes.NewReader(b[off : off+n])), nil
}

// Stat returns the length of a blob.
func (r memory) Stat(ctx context.Context, name string) (int64, error) {
	if err := r.pause(ctx, name); err != nil {
		return 0, err
	}
	b, ok := r.blobs[name]
	if !ok {
		return 0, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return int64(len(b)), nil
}

// List yields the blobs under a prefix.
func (r memory) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return func(yield func(repo.Blob, error) bool) {
		if err := r.pause(ctx); err != nil {
			yield(repo.Blob{}, err)
			return
		}
		var names []string
		for name := range r.blobs {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if !yield(repo.Blob{Name: name, Size: int64(len(r.blobs[name]))}, nil) {
				return
			}
		}
	}
}

// blobs returns a repository of two fixtures, each in a directory of its own.
func (w *world) blobs() map[string][]byte {
	all := map[string][]byte{}
	for _, s := range w.sources {
		for name, b := range s.blobs {
			if strings.HasPrefix(name, "indices/") {
				all[name] = b
			}
		}
	}
	return all
}

// makePlan repeats the indices of the fixtures until the plan has the configured number, and sets the documents expected of each.
func (w *world) makePlan() {
	small, long := w.sources[smallFixture], w.sources[longFixture]
	w.plan = &plan.Plan{Snapshot: "snap1", UUID: small.plan.UUID, Session: "sim", State: "SUCCESS", Source: small.plan.Source}
	for i := range w.cfg.Indices {
		from, x := long, long.plan.Indices[0]
		if i >= w.cfg.Long {
			from, x = small, small.plan.Indices[i%len(small.plan.Indices)]
		}
		base := x.Name
		x.Name = fmt.Sprintf("i%03d", i)
		x.Entry.Naming = plan.Naming{Index: fmt.Sprintf("t%03d", i)}
		x.Entry.Ours = x.Entry.Naming.Targets()
		w.plan.Indices = append(w.plan.Indices, x)
		w.target.create(x.Entry.Naming.Index)
		for n, t := range from.shards[base] {
			w.expect(x.Name, x.Entry.Naming.Index, n, t)
		}
	}
}
