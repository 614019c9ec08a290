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
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/boltstore"
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
		Failed: func(ctx context.Context, _ *target.Client, state *cms.Coordinator, mine bool) (*verify.Failed, error) {
			all := &verify.Failed{}
			if !mine {
				return all, nil
			}
			return all, compare.AddRecorded(ctx, all, state)
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
			r.Quick, r.Failed = c.quick, func(context.Context, *target.Client, *cms.Coordinator, bool) (*verify.Failed, error) {
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

// TestRun_StateThatDoesNotAnswer: a comparison does not need the state of the session, but warns when the state cannot be reached, in which
// failures may be recorded.
func TestRun_StateThatDoesNotAnswer(t *testing.T) {
	for level, reason := range map[string]error{"WARN": fault.ErrUnavailable, "INFO": fault.ErrConfig} {
		t.Run(level, func(t *testing.T) {
			r, log := comparing(t, holding(nil))
			r.State = func(context.Context, *target.Client) (*cms.Coordinator, func() error, error) {
				return nil, func() error { return nil }, reason
			}
			if report, err := r.Compare(t.Context(), "", sending("1", "2")); err != nil || report.State != verify.Equal {
				t.Errorf("%+v, %v", report, err)
			}
			if !strings.Contains(log.String(), "level="+level+` msg="documents that were changed after`) {
				t.Errorf("%s", log)
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
			r.Failed = func(context.Context, *target.Client, *cms.Coordinator, bool) (*verify.Failed, error) {
				return nil, errBroken
			}
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

// TestFailedIn_Files checks which documents count as failed: those of the files of the session.
func TestFailedIn_Files(t *testing.T) {
	dir := t.TempDir()
	store := boltstore.Open(t)
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
