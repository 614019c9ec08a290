package compare_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

var (
	errBroken    = fmt.Errorf("it does not answer: %w", fault.ErrUnavailable)
	errNoSession = errors.New("no session of this name")
)

// numbered is the answer of a target that reports sequence numbers.
var numbered = replies{"GET /a/_stats": `{"_shards":{"failed":0},"indices":{"a":{"shards":{"0":[{"routing":{"primary":true},"seq_no":{"max_seq_no":7}}]}}}}`}

// holding returns a target that has an index a with the documents 1 and 2.
func holding(changes replies) replies {
	on := replies{
		"GET /":   `{"version":{"distribution":"opensearch","number":"1.3.14"},"cluster_uuid":"cluster"}`,
		"HEAD /a": `{}`, "GET /a": `{"a":{"settings":{"index.number_of_shards":"1","index.uuid":"u"},"mappings":{}}}`, "POST /a/_refresh": `{}`, "GET /a/_count": `{"count":2}`,
		"GET /a/_stats/docs":   `{"_shards":{"failed":0},"_all":{"primaries":{"docs":{"count":2}}}}`,
		"POST /a/_search":      `{"_scroll_id":"s","_shards":{"failed":0},"hits":{"hits":[{"_id":"1","_source":{"n":1}},{"_id":"2","_source":{"n":2}}]}}`,
		"POST /_search/scroll": `{"_scroll_id":"s","_shards":{"failed":0},"hits":{"hits":[]}}`, "DELETE /_search/scroll": `{}`,
	}
	maps.Copy(on, changes)
	return on
}

// sending is a source that sends documents by id to index a.
func sending(documents ...string) compare.Source {
	unit := verify.Unit{
		Name: "a/0", Key: strings.Join(documents, " "), Count: func(context.Context) (int64, error) { return int64(len(documents)), nil },
		Read: func(_ context.Context, from int64, each func(*verify.Document) error) error {
			for n := int(from); n < len(documents); n++ {
				if err := each(&verify.Document{Index: []byte("a"), ID: []byte(documents[n]), Source: fmt.Appendf(nil, `{"n":%s}`, documents[n]), Ordinal: int64(n)}); err != nil {
					return err
				}
			}
			return nil
		},
	}
	return compare.Source{
		Identity: "snapshot",
		Marks: func(context.Context, *target.Client, *cms.Coordinator) (rollback.Marks, error) {
			return rollback.Marks{}, errors.New("no marks are kept")
		},
		Groups: func(context.Context, *target.Client, target.Version) ([]verify.Group, error) {
			return []verify.Group{{Targets: []string{"a"}, Sources: []string{"a"}, Units: []verify.Unit{unit}}}, nil
		},
		Fields: func(context.Context, *target.Client, target.Version, *verify.Failed, *verify.Report) error {
			return nil
		},
	}
}

// comparing returns a Run that compares a target, and its log.
func comparing(t *testing.T, on replies) (*compare.Run, *bytes.Buffer) {
	t.Helper()
	srv := httptest.NewServer(on)
	t.Cleanup(srv.Close)
	log, dir := &bytes.Buffer{}, t.TempDir()
	return &compare.Run{
		Target: target.Config{URL: srv.URL}, Version: "1.2.3", Sample: 1, Names: 10, Readers: 1, Lease: time.Minute,
		Failed: func(context.Context, *target.Client, *cms.Coordinator) (*verify.Failed, error) {
			return &verify.Failed{}, nil
		},
		State: func(context.Context, *target.Client) (*cms.Coordinator, func() error, error) {
			return nil, func() error { return nil }, nil
		},
		NoSession: errNoSession, StateDir: func() (string, error) { return dir, nil },
		Temporary: func() (cms.Store, func() error, error) {
			store, err := boltcms.Open(filepath.Join(dir, "temporary.db"), time.Now)
			return store, store.Close, err
		},
		Show: func(*verify.Verifier) func() { return func() {} },
		Log:  slog.New(slog.NewTextHandler(log, nil)),
	}, log
}

// TestRun_Compares checks the result of a comparison as a whole.
func TestRun_Compares(t *testing.T) {
	for _, c := range []struct {
		name   string
		sent   []string
		failed string // id of a document that is recorded as failed
		quick  bool
		state  verify.State
	}{
		{"as it was sent", []string{"1", "2"}, "", false, verify.Equal},
		{"a document is missing", []string{"1", "2", "3"}, "", false, verify.Different},
		{"a document is missing, whose failure is recorded", []string{"1", "2", "3"}, "3", false, verify.FailedDocuments},
		{"a document too many", []string{"1"}, "", false, verify.Different},
		{"numbers of documents", []string{"1", "2"}, "", true, verify.Equal},
		{"another number of documents", []string{"1"}, "", true, verify.Different},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, log := comparing(t, holding(nil))
			r.Quick, r.Failed = c.quick, func(context.Context, *target.Client, *cms.Coordinator) (*verify.Failed, error) {
				all := &verify.Failed{}
				if c.failed != "" {
					all.Add("a", c.failed)
				}
				return all, nil
			}
			source := sending(c.sent...)
			source.Complete = func(r *verify.Report) { r.Snapshot = "snap1" }
			source.Fields = func(_ context.Context, _ *target.Client, _ target.Version, failed *verify.Failed, r *verify.Report) error {
				r.Warnings = append(r.Warnings, fmt.Sprint("fields, ", failed.Len(), " failed"))
				return nil
			}
			begin := time.Now().Add(-time.Second)
			report, err := r.Compare(t.Context(), "file:///snapshots", source)
			if err != nil {
				t.Fatal(err)
			}
			if report.State != c.state || len(report.Indices) != 1 || report.Indices[0].State != c.state || report.Indices[0].SourceDocuments != int64(len(c.sent)) {
				t.Errorf("%s, %+v; want %s", report.State, report.Indices, c.state)
			}
			if report.Version != "1.2.3" || report.Source != "file:///snapshots" || report.Snapshot != "snap1" || report.Target != r.Target.URL || report.Quick != c.quick || report.Sample != 1 {
				t.Errorf("%+v", report)
			}
			if report.Begin.Before(begin) || report.End.Before(report.Begin) {
				t.Errorf("from %s to %s", report.Begin, report.End)
			}
			if want := fmt.Sprint("[fields, ", len(c.failed), " failed]"); fmt.Sprint(report.Warnings) != want {
				t.Errorf("%q, want %s", report.Warnings, want)
			}
			if !strings.Contains(log.String(), "no marks are kept") {
				t.Errorf("the log does not state why later changes are not recognized: %s", log)
			}
		})
	}
}

// TestRun_ReportsWhatFails checks that no report is made of a comparison that is not whole.
func TestRun_ReportsWhatFails(t *testing.T) {
	for name, c := range map[string]struct {
		on     replies
		change func(r *compare.Run, s *compare.Source)
		is     error
	}{
		"the address of the target": {nil, func(r *compare.Run, _ *compare.Source) { r.Target.URL = "nowhere" }, fault.ErrConfig},
		"the target":                {replies{"GET /": "503"}, func(*compare.Run, *compare.Source) {}, fault.ErrUnavailable},
		"the source": {nil, func(_ *compare.Run, s *compare.Source) {
			s.Groups = func(context.Context, *target.Client, target.Version) ([]verify.Group, error) { return nil, errBroken }
		}, errBroken},
		"the session": {nil, func(r *compare.Run, _ *compare.Source) {
			r.State = func(context.Context, *target.Client) (*cms.Coordinator, func() error, error) {
				return nil, func() error { return nil }, errNoSession
			}
		}, errNoSession},
		"the end of the session": {nil, func(r *compare.Run, _ *compare.Source) {
			r.State = func(context.Context, *target.Client) (*cms.Coordinator, func() error, error) {
				return nil, func() error { return errBroken }, nil
			}
		}, errBroken},
		"the failed documents": {nil, func(r *compare.Run, _ *compare.Source) {
			r.Failed = func(context.Context, *target.Client, *cms.Coordinator) (*verify.Failed, error) { return nil, errBroken }
		}, errBroken},
		"the fields": {nil, func(_ *compare.Run, s *compare.Source) {
			s.Fields = func(context.Context, *target.Client, target.Version, *verify.Failed, *verify.Report) error {
				return errBroken
			}
		}, errBroken},
		"what the session recorded": {nil, func(r *compare.Run, s *compare.Source) {
			r.State = func(context.Context, *target.Client) (*cms.Coordinator, func() error, error) {
				store, err := boltcms.Open(filepath.Join(t.TempDir(), "session.db"), time.Now)
				return cms.New(cms.Config{Store: store, Creator: "test"}), func() error { return nil }, errors.Join(err, store.Close())
			}
			s.Marks = func(context.Context, *target.Client, *cms.Coordinator) (rollback.Marks, error) {
				return rollback.Marks{}, nil
			}
		}, cms.ErrStoreGone},
		"the place of its state": {nil, func(r *compare.Run, _ *compare.Source) {
			r.StateDir = func() (string, error) { return "", errBroken }
			r.Temporary = func() (cms.Store, func() error, error) { return nil, func() error { return nil }, errBroken }
		}, errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := comparing(t, holding(c.on))
			source := sending("1", "2")
			c.change(r, &source)
			if report, err := r.Compare(t.Context(), "", source); report != nil || !errors.Is(err, c.is) {
				t.Errorf("%+v, %v; want %v", report, err, c.is)
			}
		})
	}
}

// TestRun_StateOfOneProcess checks that a comparison without a session keeps its state until it is over, and none that is damaged.
func TestRun_StateOfOneProcess(t *testing.T) {
	r, _ := comparing(t, holding(nil))
	dir, err := r.StateDir()
	if err != nil {
		t.Fatal(err)
	}
	kept := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	source := sending("1", "2")
	if _, err := r.Compare(brokenOff(t, &source), "", source); !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not broken off: %v", err)
	}
	if len(kept()) != 1 {
		t.Errorf("after a failure %q are kept", kept())
	}
	source = sending("1", "2")
	for _, name := range kept() { // a crash of the machine
		if err := os.WriteFile(name, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := r.Compare(t.Context(), "", source); err != nil || report.State != verify.Equal {
		t.Fatalf("%+v, %v", report, err)
	}
	if left := kept(); len(left) != 0 {
		t.Errorf("after the end %q are left", left)
	}
	source.Identity = "" // it shares its state with nobody
	if report, err := r.Compare(t.Context(), "", source); err != nil || report.State != verify.Equal {
		t.Errorf("%+v, %v", report, err)
	}
	if left := kept(); len(left) != 1 || filepath.Base(left[0]) != "temporary.db" {
		t.Errorf("%q are left", left)
	}
}

// sharing lets a comparison use the state of a session, which it returns.
func sharing(t *testing.T, r *compare.Run) *cms.Coordinator {
	t.Helper()
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "session.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	state := cms.New(cms.Config{Store: store, Creator: "test"})
	r.State = func(context.Context, *target.Client) (*cms.Coordinator, func() error, error) {
		return state, func() error { return nil }, nil
	}
	return state
}

// brokenOff returns a context that ends when a source is read.
func brokenOff(t *testing.T, source *compare.Source) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	groups := source.Groups
	source.Groups = func(ctx context.Context, c *target.Client, v target.Version) ([]verify.Group, error) {
		all, err := groups(ctx, c, v)
		all[0].Units[0].Read = func(ctx context.Context, _ int64, _ func(*verify.Document) error) error {
			cancel()
			return ctx.Err()
		}
		return all, err
	}
	return ctx
}

// TestRun_StateThatAnotherProcessHolds checks that a comparison which cannot have the file of its state uses one of its own.
func TestRun_StateThatAnotherProcessHolds(t *testing.T) {
	r, _ := comparing(t, holding(nil))
	dir, err := r.StateDir()
	if err != nil {
		t.Fatal(err)
	}
	source := sending("1", "2")
	if _, err := r.Compare(brokenOff(t, &source), "", source); !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not broken off: %v", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	other, err := boltcms.Open(names[0], time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close() //nolint:errcheck // of a test
	if report, err := r.Compare(t.Context(), "", sending("1", "2")); err != nil || report.State != verify.Equal {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := os.Stat(names[0]); err != nil {
		t.Errorf("the state of the other process: %v", err)
	}
}

// TestRun_ClaimsOfProcesses checks that a process names itself in the directory of its user while it has leases in the state of a
// session, and that it waits for another process that does so.
func TestRun_ClaimsOfProcesses(t *testing.T) {
	r, _ := comparing(t, holding(numbered))
	state := sharing(t, r)
	dir, err := r.StateDir()
	if err != nil {
		t.Fatal(err)
	}
	owners := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "verify-*.owner"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	source := sending("1", "2")
	if _, err := r.Compare(brokenOff(t, &source), "", source); !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not broken off: %v", err)
	}
	names := owners()
	if len(names) != 1 {
		t.Fatalf("after a failure %q are kept", names)
	}
	live, err := owner.Take(names[0], "another")
	if err != nil {
		t.Fatal(err)
	}
	if dead := live.Dead(); len(dead) != 1 {
		t.Errorf("%q have ended", dead)
	}
	if err := live.Release(); err != nil {
		t.Fatal(err)
	}
	if report, err := r.Compare(t.Context(), "", sending("1", "2")); err != nil || report.State != verify.Equal {
		t.Errorf("%+v, %v", report, err)
	}
	if left := owners(); len(left) != 0 {
		t.Errorf("after the end %q are left", left)
	}
	if live, err = owner.Take(names[0], "another"); err != nil {
		t.Fatal(err)
	}
	defer live.Release() //nolint:errcheck // of a test
	if report, err := r.Compare(t.Context(), "", sending("1", "2")); err != nil || report.State != verify.Equal {
		t.Errorf("beside a process that lives: %+v, %v", report, err)
	}
	if left := owners(); len(left) != 1 {
		t.Errorf("the claim of a process that lives: %q", left)
	}
	if _, err := session.IdentityOf(state).Read(t.Context()); !errors.Is(err, cms.ErrNotFound) {
		t.Errorf("a comparison began the session: %v", err)
	}
}

// TestRun_ComparesByItself checks that a process compares alone beside another comparison of the session.
func TestRun_ComparesByItself(t *testing.T) {
	r, log := comparing(t, holding(numbered))
	sharing(t, r)
	first, other := sending("1", "2"), sending("1", "2")
	other.Identity = "other settings"
	ctx := brokenOff(t, &first)
	groups := first.Groups
	first.Groups = func(c context.Context, client *target.Client, v target.Version) ([]verify.Group, error) {
		all, err := groups(c, client, v)
		breaks := all[0].Units[0].Read
		all[0].Units[0].Read = func(c context.Context, from int64, each func(*verify.Document) error) error {
			if report, err := r.Compare(t.Context(), "", other); err != nil || report.State != verify.Equal {
				t.Errorf("%+v, %v", report, err)
			}
			return breaks(c, from, each)
		}
		return all, err
	}
	if _, err := r.Compare(ctx, "", first); !errors.Is(err, context.Canceled) {
		t.Errorf("it was not broken off: %v", err)
	}
	if !strings.Contains(log.String(), "another comparison is in progress") {
		t.Errorf("the log does not state why it compares by itself: %s", log)
	}
}

// TestRun_UsesTheStateOfASession checks that the documents and aliases which the session recorded as refused are known to each of its
// comparisons, and that each shows its progress until it ends.
func TestRun_UsesTheStateOfASession(t *testing.T) {
	r, _ := comparing(t, holding(numbered))
	state := sharing(t, r)
	if err := session.RefusalsOf(state).Keep(t.Context(), []session.Refused{{Index: "a", ID: "3"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := session.EntriesOf(state).Create(t.Context(), session.IndexEntry{Name: "a", Body: []byte(`{"refused_aliases":[{"index":"a","alias":"b","reason":"no"}]}`)}); err != nil {
		t.Fatal(err)
	}
	shown := 0
	r.Show = func(*verify.Verifier) func() {
		shown++
		return func() { shown += 100 }
	}
	source := sending("1", "2", "3")
	source.Marks = func(_ context.Context, _ *target.Client, s *cms.Coordinator) (rollback.Marks, error) {
		if s != state {
			t.Error("the marks are those of another session")
		}
		return rollback.Marks{}, nil
	}
	for range 2 {
		report, err := r.Compare(t.Context(), "", source)
		if err != nil || report.State != verify.FailedDocuments {
			t.Fatalf("%+v, %v", report, err)
		}
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "the alias b of a") {
			t.Errorf("%s", got)
		}
	}
	if shown != 202 {
		t.Errorf("the progress was shown and ended: %d", shown)
	}
}

// TestFailedIn_Files checks which documents count as failed: those of the files of the session.
func TestFailedIn_Files(t *testing.T) {
	dir := t.TempDir()
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "session.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // of a test
	state := cms.New(cms.Config{Store: store, Creator: "test"})
	mark, err := session.IdentityOf(state).Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id, owner := range map[string]failed.Owner{
		"plain": nil, "own": func(context.Context) (string, error) { return mark, nil }, "former": func(context.Context) (string, error) { return "former", nil },
	} {
		w, err := failed.Open(dir, id, failed.Full)
		if err != nil {
			t.Fatal(err)
		}
		w.Owner = owner
		if err := errors.Join(w.Record(t.Context(), []doc.Failure{{Index: "a", ID: id}}), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		state *cms.Coordinator
		want  string
	}{
		{"of the session", state, "map[former:false own:true plain:true]"},
		{"of all sessions", nil, "map[former:true own:true plain:true]"},
	} {
		all, err := compare.FailedIn(t.Context(), files, dir, c.state)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, id := range []string{"plain", "own", "former"} {
			got[id] = all.Has("a", []byte(id))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "damaged.ndjson"), []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := compare.FailedIn(t.Context(), files, dir, nil); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "damaged.ndjson") {
		t.Errorf("a damaged file: %v", err)
	}
	for name, broken := range map[string]unanswered{"it cannot be listed": {Repository: files, list: true}, "a file cannot be read": {Repository: files}} {
		if _, err := compare.FailedIn(t.Context(), broken, dir, nil); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// unanswered is a repository whose files cannot be read, or not even listed.
type unanswered struct {
	snapshot.Repository

	list bool
}

func (u unanswered) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	if !u.list {
		return u.Repository.List(ctx, prefix)
	}
	return func(yield func(repo.Blob, error) bool) { yield(repo.Blob{}, errBroken) }
}

func (unanswered) Open(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, errBroken
}
