package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/rest"
)

const (
	indexName    = "bench"
	snapshotName = "snap1"
	fillBody     = 4 << 20 // bytes of one bulk request
	// layout must change whenever the output of fill changes, so that old snapshots are not used.
	layout = 1
)

// kind describes the contents of a snapshot.
type kind struct {
	Corpus    corpus.Kind
	Codec     string // index.codec
	Cluster   string // product and version: elasticsearch-7.10.2
	Shards    int
	Documents int  // number of documents indexed
	Merged    bool // each shard is merged into one segment
}

// Default cluster and number of shards of a kind.
const (
	ordinaryCluster = "elasticsearch-7.10.2"
	ordinaryShards  = 4
)

// folder returns the name of the snapshot's directory in the cache.
func (k kind) folder() string {
	name := fmt.Sprintf("%s-%s-%d-v%d", k.Corpus, k.Codec, k.Documents, layout)
	if k.Cluster != ordinaryCluster {
		name += "-" + k.Cluster
	}
	if k.Shards != ordinaryShards {
		name += fmt.Sprintf("-%dshards", k.Shards)
	}
	if k.Merged {
		name += "-merged"
	}
	return name
}

// source is a snapshot to be measured, cached between runs.
type source struct {
	Kind      corpus.Kind `json:"kind"`
	Codec     string      `json:"codec"`     // index.codec
	Documents int         `json:"documents"` // live
	Bytes     int64       `json:"bytes"`     // of their _source
	Cluster   string      `json:"-"`         // that made it
	Repo      string      `json:"-"`         // directory
	Copies    int         `json:"-"`         // number of indices with the same files, all counted in Documents and Bytes; 0: one
}

// Of repeated are copies for a run of this length, so that the start of a process is a small part of it.
const (
	longRun    = 1e9 // bytes of _source
	mostCopies = 10
)

// repeated creates a repository in dir that contains the index of s under different names, as often as a long run needs.
func (s *source) repeated(dir string) (*source, error) {
	n := min(max(int(longRun/float64(s.Bytes)+0.5), 1), mostCopies)
	all := *s
	all.Repo, all.Documents, all.Bytes, all.Copies = dir, s.Documents*n, s.Bytes*int64(n), n
	return &all, multiply(s, dir, n, true)
}

// indexBody is a format that takes the number of shards and the codec.
const indexBody = `{
 "settings": {"number_of_shards": %d, "number_of_replicas": 0, "refresh_interval": "30s", "translog.durability": "async", "codec": %q},
 "mappings": {"dynamic": false, "properties": {
  "@timestamp": {"type": "date"}, "order_id": {"type": "long"}, "status": {"type": "keyword"},
  "message": {"type": "text"}, "total": {"type": "double"}, "trace": {"properties": {"id": {"type": "keyword"}}}}}}`

// cached returns the snapshot of a corpus that an earlier run left in dir; fs.ErrNotExist if it is missing.
func cached(dir string, k kind) (*source, error) {
	home := filepath.Join(dir, "bench", k.folder())
	raw, err := os.ReadFile(filepath.Join(home, "source.json"))
	if err != nil {
		return nil, err
	}
	s := &source{Repo: filepath.Join(home, "repo"), Cluster: k.Cluster}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("%s: %w", home, err)
	}
	return s, nil
}

// keep copies the repository from to home. source.json is written last and marks the copy as complete.
func (s *source) keep(home, from string) error {
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	s.Repo = filepath.Join(home, "repo")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(s.Repo, os.DirFS(from)); err != nil {
		return fmt.Errorf("keeping the snapshot: %w", err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(home, "source.json"), raw, 0o644)
}

// fill indexes the documents of a kind into a real cluster, deletes 2 % and overwrites 1 % of them, and creates a snapshot of the index in
// the directory location, to which the cluster must have write access.
func fill(ctx context.Context, c rest.Client, location string, k kind) (*source, error) {
	docs, err := corpus.New(k.Corpus)
	if err != nil {
		return nil, err
	}
	if err := c.JSON(ctx, http.MethodPut, "/"+indexName, fmt.Sprintf(indexBody, k.Shards, k.Codec), nil); err != nil {
		return nil, err
	}
	f := filler{c: c, docs: docs}
	s, n := &source{Kind: k.Corpus, Codec: k.Codec, Cluster: k.Cluster}, k.Documents
	sizes := make([]int, n)
	for i := range n {
		if sizes[i], err = f.index(ctx, i, 0); err != nil {
			return nil, err
		}
	}
	for i := range n {
		switch {
		case i%50 == 25:
			err, sizes[i] = f.remove(ctx, i), -1
		case i%100 == 7:
			sizes[i], err = f.index(ctx, i, 1)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := f.flush(ctx); err != nil {
		return nil, err
	}
	if k.Merged {
		if err := c.JSON(ctx, http.MethodPost, "/"+indexName+"/_forcemerge?max_num_segments=1", nil, nil); err != nil {
			return nil, err
		}
	}
	for _, size := range sizes {
		if size >= 0 {
			s.Documents++
			s.Bytes += int64(size)
		}
	}
	return s, takeSnapshot(ctx, c, location)
}

// takeSnapshot creates the snapshot of the index.
func takeSnapshot(ctx context.Context, c rest.Client, location string) error {
	repository := map[string]any{"type": "fs", "settings": map[string]any{"location": location}}
	if err := c.JSON(ctx, http.MethodPut, "/_snapshot/bench", repository, nil); err != nil {
		return err
	}
	return snapshotNamed(ctx, c, snapshotName)
}

// filler collects bulk bodies and sends the full ones.
type filler struct {
	c    rest.Client
	docs *corpus.Corpus
	body []byte
}

// id returns the id of document i: every third is a number, the others look like generated ids.
func id(i int) string {
	if i%3 == 0 {
		return strconv.Itoa(i)
	}
	r := rand.NewPCG(uint64(i), 7)
	var raw [15]byte
	for j := range raw {
		raw[j] = byte(r.Uint64())
	}
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// index adds a revision of document i and returns the size of its source.
func (f *filler) index(ctx context.Context, i, revision int) (int, error) {
	f.body = fmt.Appendf(f.body, "{\"index\":{\"_id\":%q}}\n", id(i))
	begin := len(f.body)
	f.body = f.docs.Append(f.body, i, revision)
	size := len(f.body) - begin
	f.body = append(f.body, '\n')
	return size, f.flushIfFull(ctx)
}

func (f *filler) remove(ctx context.Context, i int) error {
	f.body = fmt.Appendf(f.body, "{\"delete\":{\"_id\":%q}}\n", id(i))
	return f.flushIfFull(ctx)
}

func (f *filler) flushIfFull(ctx context.Context) error {
	if len(f.body) < fillBody {
		return nil
	}
	return f.flush(ctx)
}

func (f *filler) flush(ctx context.Context) error {
	if len(f.body) == 0 {
		return nil
	}
	err := f.c.Bulk(ctx, "/"+indexName+"/_bulk", f.body)
	f.body = f.body[:0]
	return err
}

// isAbsent reports whether a file does not exist, as opposed to an unreadable one.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
