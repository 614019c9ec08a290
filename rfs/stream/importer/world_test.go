package importer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/testing/cmstest"
	"github.com/rfsd/rfsd/testing/failedtest"
)

// landing is a target in memory.
type landing struct {
	mu       sync.Mutex
	docs     map[string]string // index/id?routing: source
	sent     int               // documents, each time they are sent
	takes    time.Duration     // for a request
	refuse   func(id string) int
	oneShard bool // documents of one id replace each other
}

func (l *landing) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if ctx.Err() != nil {
		return bulk.Result{}, ctx.Err()
	}
	if l.takes > 0 {
		time.Sleep(l.takes)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var res bulk.Result
	for pos := range n {
		action, rest, _ := bytes.Cut(body, []byte("\n"))
		source, rest, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			return res, errors.New("body is not pairs of lines")
		}
		body = rest
		var a map[string]struct {
			Index   string `json:"_index"`
			ID      string `json:"_id"`
			Type    string `json:"_type"`
			Routing string
		}
		if err := json.Unmarshal(action, &a); err != nil {
			return res, err
		}
		x := a["index"]
		l.sent++
		if l.refuse != nil && l.refuse(x.ID) != 0 {
			res.Refused = append(res.Refused, bulk.Refusal{Pos: pos, Status: l.refuse(x.ID), Type: "mapper_parsing_exception", Reason: "no"})
			continue
		}
		key := x.Index + "/" + x.ID
		if x.Type != "" {
			key = x.Index + "/" + x.Type + "/" + x.ID
		}
		if x.Routing != "" {
			key += "?" + x.Routing
		}
		if l.oneShard {
			key = x.Index + "/" + x.ID
			if _, there := l.docs[key]; there {
				res.Replaced = append(res.Replaced, bulk.Replacement{Pos: pos, Copies: 1})
			}
		}
		l.docs[key] = string(source)
	}
	if len(body) > 0 {
		return res, errors.New("body is longer than its documents")
	}
	return res, nil
}

// failedOnce demands that the failure of one document is recorded, and no other. Two processes may both have
// recorded it: who reads the records sees it once, because all else is the same.
func failedOnce(t *testing.T, f *failedtest.Recorder, id string) {
	t.Helper()
	all := f.All()
	for _, x := range all {
		if x.ID != id || x.Ordinal != all[0].Ordinal || x.Shard != all[0].Shard {
			t.Errorf("%+v, want failures of %s only", x, id)
		}
	}
	if len(all) == 0 {
		t.Errorf("no failure of %s is recorded", id)
	}
}

// anyIndex lets documents go to every index.
type anyIndex struct{}

func (anyIndex) Made(string) bool { return false }

func (anyIndex) Create(context.Context, string) error { return nil }

func (anyIndex) Ensure(context.Context, []byte) error { return nil }

// world is a directory of files, a store and a target, in virtual time.
type world struct {
	t       *testing.T
	dir     string
	store   cms.Store
	session *cms.Coordinator
	target  *landing
	failed  *failedtest.Recorder
	clock   timing.Clock
}

func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := boltcms.Open(filepath.Join(quickDir(t), "cms.db"), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c := cms.New(cms.Config{Store: s, Creator: "test"})
		f(t, &world{t: t, dir: t.TempDir(), store: s, session: c, target: &landing{docs: map[string]string{}}, failed: &failedtest.Recorder{}, clock: cmstest.Clock{Start: time.Now()}})
	})
}

// quickDir is a directory in memory where there is one: each of thousands of writes is synced.
func quickDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "importer")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (w *world) write(name string, text string) {
	w.t.Helper()
	var buf bytes.Buffer
	switch filepath.Ext(name) {
	case ".gz":
		z := gzip.NewWriter(&buf)
		z.Write([]byte(text))
		z.Close()
	case ".zst":
		z, err := zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1))
		if err != nil {
			w.t.Fatal(err)
		}
		z.Write([]byte(text))
		z.Close()
	default:
		buf.WriteString(text)
	}
	w.raw(name, buf.String())
}

// raw writes a file of these bytes.
func (w *world) raw(name string, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// node is a process's part of the import.
func (w *world) node(change ...func(*importer.Import)) *importer.Import {
	w.t.Helper()
	src, err := repo.NewDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	m := &importer.Import{
		Source: src, Store: w.store, Session: session.IdentityOf(w.session), Identity: map[string]string{"destination": "cluster", "destination-id": "A"}, Clock: w.clock, Log: slog.New(slog.DiscardHandler), Indices: anyIndex{}, Failed: w.failed,
		Destination: engine.ToCluster(w.target, engine.Limits{Connections: 64}),
		Bulk:        bulk.Options{MaxBytes: 2000, MaxInFlight: 2}, Workers: 2, Window: 1000,
	}
	for _, f := range change {
		f(m)
	}
	return m
}

func run(t *testing.T, m *importer.Import) importer.Status {
	t.Helper()
	s, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// corpus writes files of all kinds and gives what has to arrive, and its accounts.
func (w *world) corpus() (map[string]string, importer.Counts) {
	want := map[string]string{}
	var c importer.Counts
	for i, name := range []string{"a/0-0.ndjson", "a/1-0.ndjson.gz", "b/0-0.ndjson.zst", "b/1-0.ndjson"} {
		var text bytes.Buffer
		for n := range 60 {
			id := fmt.Sprintf("%d-%d", i, n)
			index := filepath.Dir(name)
			source := fmt.Sprintf(`{"n":%d,"text":%q}`, n, bytes.Repeat([]byte("x"), n*n%300))
			if n%7 == 3 {
				source = `{"index":{"_index":"trap","_id":"` + id + `"}}`
			}
			fmt.Fprintf(&text, `{"index":{"_index":%q,"_id":%q}}`+"\n%s\n", index, id, source)
			want[index+"/"+id] = source
			c.Documents++
			c.Indexed++
			c.Bytes += int64(len(source))
		}
		w.write(name, text.String())
	}
	return want, c
}

func (w *world) arrived(want map[string]string) {
	w.t.Helper()
	w.target.mu.Lock()
	defer w.target.mu.Unlock()
	if maps.Equal(w.target.docs, want) {
		return
	}
	for k, v := range want {
		if got, ok := w.target.docs[k]; !ok || got != v {
			w.t.Errorf("%s is %q, want %q", k, got, v)
			return
		}
	}
	w.t.Errorf("%d documents, want %d", len(w.target.docs), len(want))
}

// account reads the import from the store.
func (w *world) account() importer.Account {
	w.t.Helper()
	s, err := importer.Read(w.t.Context(), w.coordinator())
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := s.Account()
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// coordinator is what a daemon reads and frees items with.
func (w *world) coordinator() *cms.Coordinator {
	w.t.Helper()
	of, err := w.store.OfKind(w.t.Context(), importer.Kind)
	if err != nil {
		w.t.Fatal(err)
	}
	c := cms.New(cms.Config{Store: of, Kind: importer.Kind, Creator: "daemon", Clock: w.clock})
	return c
}

func rename(t *testing.T, dir, from, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(dir, filepath.FromSlash(from)), filepath.Join(dir, filepath.FromSlash(to))); err != nil {
		t.Fatal(err)
	}
}
