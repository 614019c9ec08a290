package worker

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/pattern"
	"github.com/rfsd/rfsd/rfs/repo"
)

func TestPlanSelectsIndices(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo")) // catalogue, orders, weblogs
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
			plan, err := NewPlan(t.Context(), blobs, req)
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
