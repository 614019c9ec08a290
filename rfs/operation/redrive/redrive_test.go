package redrive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// cluster is a target that refuses what refuse returns a reason for.
type cluster struct {
	mu     sync.Mutex
	got    []string // op, index, id, routing, type, source of every accepted document
	sent   int
	refuse func(id string) (reason string)
	broken func(sent int) error // of a whole request
}

type bulkLine struct {
	Index   string `json:"_index"`
	ID      string `json:"_id"`
	Type    string `json:"_type"`
	Routing string `json:"routing"`
}

func (c *cluster) Send(_ context.Context, body []byte, n int) (bulk.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var r bulk.Result
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	if len(lines) != 2*n {
		return r, fmt.Errorf("%d lines for %d documents: %w", len(lines), n, fault.ErrRejected)
	}
	if c.broken != nil {
		if err := c.broken(c.sent); err != nil {
			return r, err
		}
	}
	for i := range n {
		var a map[string]bulkLine
		if err := json.Unmarshal(lines[2*i], &a); err != nil {
			return r, errors.Join(err, fault.ErrRejected)
		}
		for op, l := range a {
			c.sent++
			if c.refuse != nil {
				if why := c.refuse(l.ID); why != "" {
					r.Refused = append(r.Refused, bulk.Refusal{Pos: i, Status: 400, Type: why, Reason: "because of " + l.ID})
					continue
				}
			}
			c.got = append(c.got, fmt.Sprintf("%s %s/%s %q %q %s", op, l.Index, l.ID, l.Routing, l.Type, lines[2*i+1]))
		}
	}
	return r, nil
}

func refusal(index, id string, ordinal int64) doc.Failure {
	return doc.Failure{Index: index, ID: id, Shard: 3, Ordinal: ordinal, Reason: "strict_dynamic_mapping_exception", Status: 400,
		Detail: "of then", Source: []byte(`{"id":"` + id + `"}`)}
}

// write makes a file of failed documents as a process leaves it.
func write(t *testing.T, dir, writer string, failures ...doc.Failure) {
	t.Helper()
	w, err := failed.Open(dir, writer, failed.Full)
	if err == nil {
		err = errors.Join(w.Record(t.Context(), failures), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// held are the lines of a directory by file: id, reason and detail.
func held(t *testing.T, dir string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = []string{}
		for l, err := range failed.Lines(bytes.NewReader(b), 8<<20) {
			if err != nil {
				t.Fatal(err)
			}
			text := l.Failure.ID + " " + string(l.Failure.Reason) + " " + l.Failure.Detail
			if l.Err != nil {
				text = string(l.Text)
			} else if l.Failure.Shard != 3 {
				t.Errorf("%s has shard %d", l.Failure.ID, l.Failure.Shard)
			}
			all[e.Name()] = append(all[e.Name()], text)
		}
		slices.Sort(all[e.Name()])
	}
	return all
}

func redriveOf(p Storage, c *cluster) *Redrive {
	return &Redrive{
		Storage: p, Bulk: bulk.Options{Sender: c, MaxDocs: 2, MaxInFlight: 2}, Log: slog.New(slog.DiscardHandler), MaxDocument: 8 << 20,
		Existing: func(_ context.Context, index string) (bulk.Existing, error) {
			switch {
			case index == "gone":
				return "", fmt.Errorf("index gone is not on the target: %w", fault.ErrConfig)
			case strings.HasPrefix(index, "stream"):
				return bulk.Keep, nil
			case strings.HasPrefix(index, "newer"):
				return bulk.Newer, nil
			}
			return bulk.Overwrite, nil
		},
	}
}

func numbers(r Report) string {
	return fmt.Sprintf("%d documents: %d indexed, %d failed, %d filtered, %d duplicates, %d remaining, complete %v",
		r.Documents, r.Indexed, r.Failed, r.Filtered, r.Duplicates, r.Remaining, r.Complete)
}

func TestRedrive(t *testing.T) {
	many := make([]doc.Failure, 7)
	for i := range many {
		many[i] = refusal("logs", fmt.Sprint(i), int64(100+i))
	}
	typed := refusal("logs", "typed", 1)
	typed.Type, typed.Routing = "event", "r"
	stream := refusal("stream-a", "s", 2)
	noSource := doc.Failure{Index: "logs", ID: "none", Shard: 3, Ordinal: 5, Reason: doc.NoSource, Detail: "not stored"}
	odd := refusal("logs", "odd", 9)
	odd.Source = []byte(`{"a":tru}`) // kept in base64
	for _, c := range []struct {
		name    string
		files   map[string][]doc.Failure
		more    string   // appended to w1.ndjson
		cluster *cluster // nil: takes everything
		change  func(r *Redrive)
		report  string
		got     int
		held    map[string][]string
		err     error
	}{
		{name: "what arrives leaves the files", files: map[string][]doc.Failure{"w1": many, "w2": {typed, stream, odd}},
			report: "10 documents: 10 indexed, 0 failed, 0 filtered, 0 duplicates, 0 remaining, complete true", got: 10, held: map[string][]string{}},
		{name: "what fails again stays with the reason of now", files: map[string][]doc.Failure{"w1": many},
			cluster: &cluster{refuse: func(id string) string {
				if id == "2" || id == "5" {
					return "mapper_parsing_exception"
				}
				return ""
			}},
			report: "7 documents: 5 indexed, 2 failed, 0 filtered, 0 duplicates, 0 remaining, complete true", got: 5,
			held: map[string][]string{"w1.ndjson": {"2 mapper_parsing_exception because of 2", "5 mapper_parsing_exception because of 5"}}},
		{name: "further lines of a document go, in the same and in other files", files: map[string][]doc.Failure{"w1": append(many[:2:2], many[1]), "w2": many[:3]},
			report: "3 documents: 3 indexed, 0 failed, 0 filtered, 3 duplicates, 0 remaining, complete true", got: 3, held: map[string][]string{}},
		{name: "what cannot be sent stays", files: map[string][]doc.Failure{"w1": {noSource}},
			report: "1 documents: 0 indexed, 1 failed, 0 filtered, 0 duplicates, 0 remaining, complete true", held: map[string][]string{"w1.ndjson": {"none no_source not stored"}}},
		{name: "other indices stay", files: map[string][]doc.Failure{"w1": {many[0], refusal("gone", "x", 1)}},
			change: func(r *Redrive) { r.Select = func(index string) bool { return index == "logs" } },
			report: "2 documents: 1 indexed, 0 failed, 1 filtered, 0 duplicates, 0 remaining, complete true", got: 1,
			held: map[string][]string{"w1.ndjson": {"x strict_dynamic_mapping_exception of then"}}},
		{name: "a line that is none stays", files: map[string][]doc.Failure{"w1": many[:1]}, more: "{\n{\"index\":\"torn",
			report: "2 documents: 1 indexed, 1 failed, 0 filtered, 0 duplicates, 0 remaining, complete true", got: 1, held: map[string][]string{"w1.ndjson": {"{\n"}}},
		{name: "an index that is missing ends it, before its documents make one", files: map[string][]doc.Failure{"w1": {many[0], refusal("gone", "x", 1), many[1]}}, err: fault.ErrConfig,
			report: "3 documents: 0 indexed, 0 failed, 0 filtered, 0 duplicates, 3 remaining, complete false",
			held:   map[string][]string{"w1.ndjson": {"0 strict_dynamic_mapping_exception of then", "1 strict_dynamic_mapping_exception of then", "x strict_dynamic_mapping_exception of then"}}},
		{name: "what arrived before the target broke leaves the files", files: map[string][]doc.Failure{"w1": many}, err: fault.ErrRejected,
			change: func(r *Redrive) { r.Bulk.MaxInFlight = 1 },
			cluster: &cluster{
				refuse: func(id string) string { return map[string]string{"1": "mapper_parsing_exception"}[id] },
				broken: func(sent int) error {
					if sent >= 4 {
						return fmt.Errorf("out of order: %w", fault.ErrRejected)
					}
					return nil
				},
			},
			report: "7 documents: 3 indexed, 1 failed, 0 filtered, 0 duplicates, 3 remaining, complete false", got: 3,
			held: map[string][]string{"w1.ndjson": {"1 mapper_parsing_exception because of 1", "4 strict_dynamic_mapping_exception of then",
				"5 strict_dynamic_mapping_exception of then", "6 strict_dynamic_mapping_exception of then"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.cluster == nil {
				c.cluster = &cluster{}
			}
			for writer, failures := range c.files {
				write(t, dir, writer, failures...)
			}
			if c.more != "" {
				f, err := os.OpenFile(filepath.Join(dir, "w1.ndjson"), os.O_APPEND|os.O_WRONLY, 0)
				if err == nil {
					_, err = f.WriteString(c.more)
					err = errors.Join(err, f.Close())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			run := func() Report {
				r := redriveOf(Folder(dir), c.cluster)
				if c.change != nil {
					c.change(r)
				}
				report, err := r.Run(t.Context())
				if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Fatalf("%v, want %v", err, c.err)
				}
				return report
			}
			if got := numbers(run()); got != c.report {
				t.Errorf("%s\nwant %s", got, c.report)
			}
			if len(c.cluster.got) != c.got {
				t.Errorf("%d documents arrived, want %d: %q", len(c.cluster.got), c.got, c.cluster.got)
			}
			if got := held(t, dir); !maps.EqualFunc(got, c.held, slices.Equal) {
				t.Errorf("files hold %q\nwant %q", got, c.held)
			}
			if c.err == nil {
				c.cluster.got = nil
				if run(); len(c.cluster.got) > 0 {
					t.Errorf("a second run sends %q", c.cluster.got)
				}
				if got := held(t, dir); !maps.EqualFunc(got, c.held, slices.Equal) {
					t.Errorf("after a second run files hold %q\nwant %q", got, c.held)
				}
			}
		})
	}
}

func TestDocumentsAreSentAsTheyWere(t *testing.T) {
	dir := t.TempDir()
	typed := refusal("logs", "typed", 1)
	typed.Type, typed.Routing, typed.Source = "event", "r", []byte(`{"a":1.0,"a":2}`)
	write(t, dir, "w1", typed, refusal("logs", "other", 3), refusal("stream-a", "s", 2))
	c := &cluster{}
	r := redriveOf(Folder(dir), c)
	existing, asked := r.Existing, map[string]int{}
	r.Existing = func(ctx context.Context, index string) (bulk.Existing, error) {
		asked[index]++
		return existing(ctx, index)
	}
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if asked["logs"] != 1 || asked["stream-a"] != 1 {
		t.Errorf("asked for what indices have: %v times", asked)
	}
	slices.Sort(c.got)
	want := []string{`create stream-a/s "" "" {"id":"s"}`, `index logs/other "" "" {"id":"other"}`, `index logs/typed "r" "event" {"a":1.0,"a":2}`}
	if !slices.Equal(c.got, want) {
		t.Errorf("%q\nwant %q", c.got, want)
	}
}

// lost is a storage whose files are never replaced, as when the process dies before.
type lost struct{ Folder }

type lostEdit struct{ Edit }

var errDied = errors.New("died")

func (p lost) Edit(ctx context.Context, name string) (Edit, error) {
	e, err := p.Folder.Edit(ctx, name)
	return lostEdit{e}, err
}
func (lostEdit) Commit(context.Context) error { return errDied }

func TestARunThatDiesLeavesTheFileAsItWas(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w1", refusal("logs", "a", 1), refusal("logs", "b", 2))
	before := held(t, dir)
	c := &cluster{refuse: func(id string) string { return map[string]string{"b": "later"}[id] }}
	r := redriveOf(lost{Folder(dir)}, c)
	if _, err := r.Run(t.Context()); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	if got := held(t, dir); !maps.EqualFunc(got, before, slices.Equal) {
		t.Errorf("files hold %q, want %q", got, before)
	}
	report, err := redriveOf(Folder(dir), c).Run(t.Context())
	if want := "2 documents: 1 indexed, 1 failed, 0 filtered, 0 duplicates, 0 remaining, complete true"; err != nil || numbers(report) != want {
		t.Errorf("%s, %v", numbers(report), err)
	}
}

func TestTheControlIndexHearsOfWhatArrivedBeforeTheFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w1", refusal("logs", "a", 1), refusal("logs", "b", 2))
	c := &cluster{refuse: func(id string) string { return map[string]string{"b": "later"}[id] }}
	r := redriveOf(Folder(dir), c)
	heard := false
	r.Arrived = func(_ context.Context, arrived func(Document) bool) error {
		heard = true
		if !arrived(Document{"logs", "a", 3, 1}) || arrived(Document{"logs", "b", 3, 2}) || arrived(Document{"logs", "a", 3, 7}) {
			t.Error("a arrived, b failed, and there is no other")
		}
		if n := len(held(t, dir)["w1.ndjson"]); n != 2 {
			t.Errorf("the file holds %d lines already", n)
		}
		return nil
	}
	if _, err := r.Run(t.Context()); err != nil || !heard {
		t.Error(err, heard)
	}
}

func TestAFileThatIsWrittenIsNotTouched(t *testing.T) {
	dir := t.TempDir()
	w, err := failed.Open(dir, "alive", failed.Full)
	if err == nil {
		err = errors.Join(w.Record(t.Context(), []doc.Failure{refusal("logs", "a", 1)}), w.Sync(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{}
	report, err := redriveOf(Folder(dir), c).Run(t.Context())
	if err != nil || report.Complete || len(report.InUse) != 1 || c.sent > 0 {
		t.Errorf("%+v, %v, %d sent", report, err, c.sent)
	}
	if err := errors.Join(w.Record(t.Context(), []doc.Failure{refusal("logs", "b", 2)}), w.Close()); err != nil {
		t.Fatal(err)
	}
	if report, err = redriveOf(Folder(dir), c).Run(t.Context()); err != nil || !report.Complete || report.Indexed != 2 {
		t.Errorf("%+v, %v", report, err)
	}
}

// shelf is a bucket in memory.
type shelf map[string][]byte

func (s shelf) URI() string { return "s3://shelf" }
func (s shelf) Open(_ context.Context, name string, _, _ int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(s[name])), nil
}

func (s shelf) List(_ context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return func(yield func(repo.Blob, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(s)) {
			if strings.HasPrefix(name, prefix) && !yield(repo.Blob{Name: name, Size: int64(len(s[name]))}, nil) {
				return
			}
		}
	}
}

func (s shelf) Put(_ context.Context, name string, body []byte) error {
	s[name] = bytes.Clone(body)
	return nil
}

func (s shelf) putFrom(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	b, err := io.ReadAll(body)
	if err == nil && int64(len(b)) != size {
		err = fmt.Errorf("%d bytes of %d", len(b), size)
	}
	return errors.Join(err, s.Put(ctx, name, b))
}

func TestRedriveOfABucketReplacesObjectsOfItsSession(t *testing.T) {
	s := shelf{}
	for _, session := range []string{"move", "other"} {
		o, err := failed.NewObjects(s, session, "w", failed.Full)
		if err == nil {
			err = o.Record(t.Context(), []doc.Failure{refusal("logs", "a", 1), refusal("logs", "b", 2)})
		}
		if err = errors.Join(err, o.Close()); err != nil {
			t.Fatal(err)
		}
	}
	other := bytes.Clone(s["other/logs/3/w/000000.ndjson"])
	c := &cluster{refuse: func(id string) string { return map[string]string{"b": "later"}[id] }}
	storage := Objects{Read: s, Put: s.putFrom, Session: "move", Drafts: t.TempDir()}
	report, err := redriveOf(storage, c).Run(t.Context())
	if err != nil || report.Indexed != 1 || report.Failed != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if b := s["move/logs/3/w/000000.ndjson"]; bytes.Count(b, []byte("\n")) != 1 || !bytes.Contains(b, []byte("because of b")) {
		t.Errorf("the object holds %q", b)
	}
	c.refuse = nil
	if report, err = redriveOf(storage, c).Run(t.Context()); err != nil || report.Indexed != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err = redriveOf(storage, c).Run(t.Context()); err != nil || report.Files != 0 {
		t.Errorf("a third run reads %+v, %v", report, err)
	}
	if !bytes.Equal(s["other/logs/3/w/000000.ndjson"], other) {
		t.Error("another session's object changed")
	}
	if left, err := os.ReadDir(storage.Drafts); err != nil || len(left) > 0 {
		t.Errorf("drafts that are left: %v, %v", left, err)
	}
}

// TestLongLinesOfARedrive: one beyond the bound ends the run with file and setting, and the file stays as it is.
func TestLongLinesOfARedrive(t *testing.T) {
	long := refusal("logs", "long", 2)
	long.Source = []byte(`"` + strings.Repeat("x", 6<<20) + `"`)
	dir := t.TempDir()
	write(t, dir, "w", refusal("logs", "a", 1), long, refusal("logs", "b", 3))
	before := held(t, dir)
	r := redriveOf(Folder(dir), &cluster{})
	r.MaxDocument = 1 << 20
	report, err := r.Run(t.Context())
	for _, part := range []string{"w.ndjson", "line 2", "--max-document-size"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	if report.Complete || !reflect.DeepEqual(held(t, dir), before) {
		t.Errorf("%s: %v", numbers(report), held(t, dir))
	}
	if report, err = redriveOf(Folder(dir), &cluster{}).Run(t.Context()); err != nil || report.Indexed != 3 || !report.Complete {
		t.Errorf("with a larger bound: %s, %v", numbers(report), err)
	}
}

// ledger is an account in memory.
type ledger struct {
	left  map[string]int64
	calls []string
	err   error
}

func (l *ledger) Begin(_ context.Context, files []string, left map[string]int64) error {
	l.left = maps.Clone(left)
	l.calls = append(l.calls, fmt.Sprint("start ", len(files), " ", left))
	return nil
}

func (l *ledger) Delivered(_ context.Context, file string, lines int, documents map[string]int64) error {
	l.calls = append(l.calls, fmt.Sprint(filepath.Base(file), " of ", lines, " ", documents))
	return l.err
}

// TestRedrive_TheAccountIsKeptBeforeAFileIsReplaced checks the calls of the account, and that a file stays when it cannot be kept.
func TestRedrive_TheAccountIsKeptBeforeAFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	twice := refusal("logs", "a", 1)
	write(t, dir, "w0", twice, refusal("logs", "b", 2), refusal("other", "c", 3), twice)
	write(t, dir, "w1", refusal("logs", "d", 4))
	before := held(t, dir)
	c, l := &cluster{refuse: func(id string) string { return map[string]string{"b": "still", "d": "still"}[id] }}, &ledger{err: errDied}
	r := redriveOf(Folder(dir), c)
	r.Account = l
	if _, err := r.Run(t.Context()); !errors.Is(err, errDied) || !reflect.DeepEqual(held(t, dir), before) {
		t.Errorf("the account cannot be kept: %v, %v", err, held(t, dir))
	}
	l = &ledger{}
	r.Account = l
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"start 2 map[logs:3 other:1]", "w0.ndjson of 4 map[logs:1 other:1]"}; !reflect.DeepEqual(l.calls, want) {
		t.Errorf("%q, want %q", l.calls, want)
	}
}
