package compare_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// fixture returns a snapshot of a repository as the source of a comparison.
func fixture(t *testing.T) *compare.Snapshot {
	t.Helper()
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	return &compare.Snapshot{Comparison: compare.Comparison{Repo: blobs, Identity: "snapshot", Log: slog.New(slog.DiscardHandler)}, Plan: p,
		Mine: func(ctx context.Context, state *cms.Coordinator) (bool, error) {
			identity, err := session.IdentityOf(state).Read(ctx)
			return identity["snapshot"] == "mine", err
		}}
}

func clientOf(t *testing.T, on replies) *target.Client {
	t.Helper()
	srv := httptest.NewServer(on)
	t.Cleanup(srv.Close)
	client, err := target.New(t.Context(), target.Config{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestSnapshot_MarksOfItsOwnSession checks that later writes are recognized by the session that migrated the snapshot only.
func TestSnapshot_MarksOfItsOwnSession(t *testing.T) {
	for _, c := range []struct {
		name     string
		identity map[string]string // nil: nothing was migrated yet
		closed   bool              // the state cannot be read
		known    bool
	}{
		{"its own", map[string]string{"snapshot": "mine"}, false, true},
		{"that of another snapshot", map[string]string{"snapshot": "another"}, false, false},
		{"one that has not begun", nil, false, false},
		{"one that cannot be read", map[string]string{"snapshot": "mine"}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := boltstore.Open(t)
			state := cms.New(cms.Config{Store: store, Creator: "test"})
			if c.identity != nil {
				if _, err := session.IdentityOf(state).Init(t.Context(), session.Meta{Identity: c.identity}); err != nil {
					t.Fatal(err)
				}
			}
			if c.closed {
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := fixture(t).Source().Marks(t.Context(), clientOf(t, replies{}), state); (err == nil) != c.known {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := fixture(t).Source().Marks(t.Context(), nil, nil); err == nil {
		t.Error("without a session later writes are recognized")
	}
}

// TestSnapshot_GroupsAndFields checks what is compared with a target that has no index yet.
func TestSnapshot_GroupsAndFields(t *testing.T) {
	s := fixture(t)
	source, client := s.Source(), clientOf(t, replies{"GET /_cluster/settings": `{}`})
	v := target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}
	groups, err := source.Groups(t.Context(), client, v)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	documents := int64(0)
	for _, g := range groups {
		for _, u := range g.Units {
			n, err := u.Count(t.Context())
			if err != nil || keys[u.Key] || u.Key == "" {
				t.Errorf("%s with the key %q: %v", u.Name, u.Key, err)
			}
			documents, keys[u.Key] = documents+n, true
		}
	}
	if len(groups) != 3 || documents != 343 { // with those that are nested
		t.Errorf("%d groups of %d documents", len(groups), documents)
	}
	r := &verify.Report{}
	if err := source.Fields(t.Context(), client, v, &verify.Failed{}, r); err != nil || len(r.Warnings) != 0 {
		t.Errorf("%v, %q", err, r.Warnings)
	}
	s.Identity = ""
	for _, g := range s.Comparison.Groups(s.Plan) {
		for _, u := range g.Units {
			if u.Key != "" {
				t.Errorf("%s of a snapshot without identity has the key %q", u.Name, u.Key)
			}
		}
	}
	broken := clientOf(t, replies{"GET /_cluster/settings": `{}`, "HEAD /catalogue": "500", "GET /catalogue": "500"})
	r = &verify.Report{}
	if err := source.Fields(t.Context(), broken, v, &verify.Failed{}, r); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("the fields of a target that does not answer: %v, %q", err, r.Warnings)
	}
}

// TestComparison_Fates checks that every document of a shard is read with what became of it, and that a reader may end at each.
func TestComparison_Fates(t *testing.T) {
	s := fixture(t)
	s.Edit = func(index string) shards.DocumentEditor {
		if index == "weblogs" {
			return migrationtest.Picky{}
		}
		return nil
	}
	for _, g := range s.Comparison.Groups(s.Plan) {
		if g.Targets[0] != "weblogs" {
			continue
		}
		enough := errors.New("enough")
		fates := map[verify.Fate]int64{}
		for _, u := range g.Units {
			err := u.Read(t.Context(), 0, func(d *verify.Document) error {
				if fates[d.Fate]++; string(d.Index) != "weblogs" || len(d.ID) == 0 || (d.Fate == verify.Sent) != (len(d.Source) > 0) || (d.Fate == verify.Unsent) != (d.Reason != "") {
					t.Errorf("%+v", d)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			for fate := range fates {
				if err := u.Read(t.Context(), 0, func(d *verify.Document) error {
					if d.Fate == fate {
						return enough
					}
					return nil
				}); !errors.Is(err, enough) {
					t.Errorf("a reader that ends at fate %d: %v", fate, err)
				}
			}
		}
		if fates[verify.Sent]+fates[verify.Filtered]+fates[verify.Unsent] != 100 || len(fates) != 3 {
			t.Errorf("fates %v", fates)
		}
		return
	}
	t.Error("the index has no group")
}

// TestSnapshot_FieldsInTheReport checks that fields which differ, and mappings that cannot be compared, are reported.
func TestSnapshot_FieldsInTheReport(t *testing.T) {
	s := fixture(t)
	s.TypesOnly = true
	v := target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}
	on := replies{"GET /_cluster/settings": `{}`, "POST /_index_template/_simulate": `{}`, "POST /_bulk": `{}`,
		"GET /catalogue": `{"catalogue":{"settings":{},"mappings":{"properties":{"price":{"type":"keyword"}}}}}`, "GET /orders": "403"}
	r := &verify.Report{Indices: []*verify.Index{{Target: "catalogue"}}}
	if err := s.Source().Fields(t.Context(), clientOf(t, on), v, &verify.Failed{}, r); err != nil {
		t.Fatal(err)
	}
	if got := r.Indices[0].Fields; len(got) != 1 || got[0].Field != "price" || got[0].Has != "keyword" {
		t.Errorf("%+v", got)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "the mappings of index orders were not compared") {
		t.Errorf("%q", r.Warnings)
	}
	excludes := fixture(t)
	excludes.Plan.Indices[0].Source.Mappings[0].Body = []byte(`{"_source":{"excludes":["secret"]}}`)
	if _, err := excludes.Source().Groups(t.Context(), clientOf(t, replies{"HEAD /catalogue": "500", "GET /catalogue/_mapping": "500"}), v); err == nil {
		t.Error("a target that does not answer has groups")
	}
}

// TestExportedFields_OfFilesThatCannotBeRead checks that their fields are not taken for equal.
func TestExportedFields_OfFilesThatCannotBeRead(t *testing.T) {
	v := target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}
	for name, broken := range map[string]io.Reader{"the file cannot be opened": nil, "the file breaks off": iotest.ErrReader(errBroken)} {
		if err := compare.ExportedFields(t.Context(), mappingsFile{in: broken}, nil, v, &verify.Report{}, nil); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExportedFields_OfATargetThatDoesNotAnswer checks that its fields are not taken for equal.
func TestExportedFields_OfATargetThatDoesNotAnswer(t *testing.T) {
	v := target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}
	on := clientOf(t, replies{"GET /_cluster/settings": `{}`, "GET /a": "500"})
	file := strings.NewReader(`{"rfsd_mappings":1,"indices":{"a":[{"properties":{"n":{"type":"long"}}}]}}`)
	if err := compare.ExportedFields(t.Context(), mappingsFile{in: file}, on, v, &verify.Report{}, slog.New(slog.DiscardHandler)); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

// mappingsFile is a repository of one file, which cannot be opened without a reader.
type mappingsFile struct {
	snapshot.Repository

	in io.Reader
}

func (m mappingsFile) Open(context.Context, string, int64, int64) (io.ReadCloser, error) {
	if m.in == nil {
		return nil, errBroken
	}
	return io.NopCloser(m.in), nil
}

// TestSnapshot_Complete checks that what the snapshot lacks is in the report.
func TestSnapshot_Complete(t *testing.T) {
	s := fixture(t)
	s.Plan.Unread, s.Plan.Missing = []plan.UnreadIndex{{Name: "damaged", Target: "to", Reason: "meta-1 is damaged"}}, []string{"logs/0"}
	r := &verify.Report{Indices: []*verify.Index{{Target: "catalogue"}}}
	s.Source().Complete(r)
	last := r.Indices[len(r.Indices)-1]
	if r.Snapshot != "snap1" || len(r.Indices) != 2 || fmt.Sprint(r.Warnings) != "[the snapshot lacks a shard: logs/0]" {
		t.Errorf("%+v", r)
	}
	if last.Target != "to" || fmt.Sprint(last.Sources, last.Problems) != "[damaged] [meta-1 is damaged]" || last.State != verify.Unreadable {
		t.Errorf("%+v", last)
	}
}

// TestTarget_LookReadsAsItIsAsked checks how a shard of the target is read.
func TestTarget_LookReadsAsItIsAsked(t *testing.T) {
	c := comparedTarget(t, holding(replies{"POST /a/_search": `{"_scroll_id":"s","_shards":{"failed":0},"hits":{"hits":[{"_id":"1","_source":{"n":"` + string(bytes.Repeat([]byte("x"), 2000)) + `"}}]}}`}), &bytes.Buffer{})
	read := func() error {
		held, err := c.Content(t.Context(), "a")
		if err != nil || len(held.Units) != 1 {
			t.Fatalf("%+v, %v", held, err)
		}
		return held.Units[0].Read(t.Context(), 0, func(*verify.Document) error { return nil })
	}
	if err := read(); err != nil {
		t.Error(err)
	}
	c.Admit = func(context.Context, int) error { return errBroken }
	if err := read(); !errors.Is(err, errBroken) {
		t.Errorf("bytes that are not admitted: %v", err)
	}
	enough := errors.New("enough")
	c.Admit = nil
	held, err := c.Content(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Units[0].Read(t.Context(), 0, func(*verify.Document) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("a reader that ends it: %v", err)
	}
}
