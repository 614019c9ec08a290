package plan

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

func TestPlanSelectsIndices(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo")) // catalogue, orders, weblogs
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name             string
		include, exclude []string
		want             []string
		refused          string
	}{
		{"all without options", nil, nil, []string{"catalogue", "orders", "weblogs"}, ""},
		{"a glob selects", []string{"*logs"}, nil, []string{"weblogs"}, ""},
		{"an exclusion leaves out", nil, []string{"cat*,orders"}, []string{"weblogs"}, ""},
		{"an exclusion wins over a name", []string{"orders", "weblogs"}, []string{"regex:web.+"}, []string{"orders"}, ""},
		{"a name that the snapshot lacks is refused", []string{"orders", "order"}, nil, nil, "has no index order"},
		{"a selection of nothing is refused", []string{"o*"}, []string{"orders"}, nil, "selects none of the indices"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := Request{SnapshotName: "snap1", MultiType: SplitTypes, EmitType: EmitAuto}
			if req.Indices.Include, err = pattern.ParseList(c.include); err != nil {
				t.Fatal(err)
			}
			if req.Indices.Exclude, err = pattern.ParseList(c.exclude); err != nil {
				t.Fatal(err)
			}
			plan, err := New(t.Context(), blobs, req)
			if c.refused != "" {
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v does not contain %q", err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range plan.Indices {
				got = append(got, x.Name)
			}
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if excluded := req.Settings("")["index-exclude"]; excluded != strings.Join(req.Indices.Exclude.Strings(), " ") {
				t.Errorf("the session does not know the exclusion: %q", excluded)
			}
		})
	}
}

// TestPlan_ErrorsOfLargeSnapshotsNameSomeIndices selects nothing of a snapshot with many indices.
func TestPlan_ErrorsOfLargeSnapshotsNameSomeIndices(t *testing.T) {
	snap := &snapshot.Snapshot{}
	for i := range 200_000 {
		snap.Indices = append(snap.Indices, snapshot.IndexRef{Name: fmt.Sprint("i", i)})
	}
	for _, name := range []string{"absent", "a*"} {
		include, err := pattern.ParseList([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&Plan{}).selectIndices(snap, Request{Indices: pattern.Selection{Include: include}})
		if err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "i0, i1, ") || !strings.Contains(err.Error(), "and 199950 more") {
			t.Errorf("%s: %.1000v", name, err)
		}
	}
}

// TestWhatChangesDocumentsIsTheSessions: two processes of a session agree on it. Defaults are left out, so that sessions of former releases go on.
func TestWhatChangesDocumentsIsTheSessions(t *testing.T) {
	none := (Request{}).Settings("")
	for _, c := range []struct {
		key, want string
		req       Request
	}{
		{"data-streams", "", Request{DataStreams: StreamsToIndices}},
		{"data-streams", "create", Request{DataStreams: StreamsCreate}},
		{"duplicate-keys", "", Request{DuplicateKeys: SendDuplicates}},
		{"duplicate-keys", "keep-last", Request{DuplicateKeys: KeepLastDuplicate}},
		{"parent-join", "relation", Request{ParentJoin: "relation"}},
		{"rebuild-sources", "true", Request{RebuildSources: true}},
		{"rebuild-text-from-terms", "true", Request{RebuildText: true}},
	} {
		got := c.req.Settings("")
		if got[c.key] != c.want || len(got) != len(none)+min(len(c.want), 1) {
			t.Errorf("%s is %q, want %q; all: %v", c.key, got[c.key], c.want, got)
		}
	}
}

// TestTypesOfAnIndex: the types that have documents are looked for where documents of several types need names of their own, and nowhere else.
func TestTypesOfAnIndex(t *testing.T) {
	family := filepath.Join("..", "worker", "testdata", "5.6.16-family")
	for _, c := range []struct {
		name, dir, index string
		emit             EmitType
		types            []string
		reads            bool // of shards
	}{
		{"several types", family, "family", EmitAuto, []string{"company", "note", "person", "pet"}, true},
		{"several types that stay", family, "family", EmitOn, []string{"company", "note", "person", "pet"}, false},
		{"one type", filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"), "orders", EmitAuto, []string{"_doc"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			blobs, err := repo.NewDir(c.dir)
			if err != nil {
				t.Fatal(err)
			}
			counted := repo.NewCounting(blobs)
			var log []repo.Request
			counted.Log(&log)
			plan, err := New(t.Context(), counted, Request{SnapshotName: "snap1", MultiType: SplitTypes, EmitType: c.emit})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(plan.Indices, func(x Index) bool { return x.Name == c.index })
			types := slices.Sorted(slices.Values(plan.Indices[i].Entry.Naming.Types))
			reads := slices.ContainsFunc(log, func(r repo.Request) bool {
				return strings.HasPrefix(r.Name, "indices/") && strings.Count(r.Name, "/") > 2
			})
			if !slices.Equal(types, c.types) || reads != c.reads {
				t.Errorf("types %q, want %q; shards are read: %v", types, c.types, reads)
			}
		})
	}
}
