package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// planned runs rfsd plan of a bundled snapshot and returns its report.
func planned(t *testing.T, fixture string, more ...string) (r preflight.Report, err error) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var out bytes.Buffer
	app, printed := newApp(), output.New(&out)
	app.Writer = printed
	dir := filepath.Join("..", "..", "testing", "fixtures", fixture)
	err = app.RunContext(t.Context(), append([]string{"rfsd", "plan", "--repo-uri", dir, "--snapshot-name", "snap1", "--output", "json"}, more...))
	if err == nil {
		err = printed.End(exit.OK, "")
	}
	if err == nil {
		err = outputtest.Decode(out.Bytes(), &r)
	}
	return r, err
}

// TestPlan_Sizes checks the sizes in a plan without a target: the exact bytes of the indices, and about as many requests as opening the
// shards takes.
func TestPlan_Sizes(t *testing.T) {
	r, err := planned(t, "7.10.2-demo", "--documents")
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := repo.Open(t.Context(), filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo"), repo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	counted := repo.NewCounting(blobs)
	p, err := plan.New(t.Context(), counted, plan.Request{SnapshotName: "snap1", MultiType: plan.UnionTypes, EmitType: plan.EmitAuto, Sizes: true})
	if err != nil {
		t.Fatal(err)
	}
	var bytes int64
	for _, x := range p.Indices {
		for _, b := range x.Entry.Bytes {
			bytes += b
		}
	}
	before, _ := counted.Totals()
	e := preflight.Evaluator{Repo: counted, Only: preflight.Sections{preflight.Sizes}, Documents: true}
	if _, err := e.Evaluate(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	opened, _ := counted.Totals()
	opened -= before
	// 159 root documents, and 184 nested ones below orders.
	if s := r.Size; s == nil || s.Repository != bytes || s.Shards != 4 || s.Documents == nil || *s.Documents != 343 || s.Read > bytes {
		t.Errorf("%+v, want %d bytes", s, bytes)
	}
	// What opening the shards takes is most of the requests of so small a snapshot.
	if r.Size.Requests < opened/2 || r.Size.Requests > 3*opened {
		t.Errorf("%d requests planned, opening took %d", r.Size.Requests, opened)
	}
	if r, err := planned(t, "7.10.2-demo"); err != nil || r.Size == nil || r.Size.Documents != nil || len(r.Checks) > 0 || !slices.Equal(r.Sections, preflight.Sections{preflight.Sizes}) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestPlan_TargetVersion: the changes on an empty target of which only the version is known.
func TestPlan_TargetVersion(t *testing.T) {
	r, err := planned(t, "1.7.6-basic", "--target-version", "3.8", "--only", "changes")
	if err != nil {
		t.Fatal(err)
	}
	if r.Target != "opensearch 3.8" || r.Size != nil || len(r.Indices) != 1 || len(r.Indices[0].Targets) != 1 || r.Indices[0].Targets[0].Action != preflight.WouldCreate ||
		!slices.ContainsFunc(r.Indices[0].Targets[0].Changes, func(d preflight.Differs) bool { return d.Path == "tag" && d.Rule == "string-to-text" }) {
		t.Errorf("%+v", r)
	}
}

// TestPlan_SectionsThatNeedATarget are refused without one, and unknown ones in any case.
func TestPlan_SectionsThatNeedATarget(t *testing.T) {
	for _, c := range []struct{ args, wants string }{
		{"--only access", "--only access needs a target"}, {"--only sizes,disks", "--only disks needs a target"}, {"--only all", "--only"},
		{"--target-version 3.8 --only limits", "--only limits needs a target"}, {"--target-version 3.8 --target-host http://127.0.0.1:1", "exclude each other"},
	} {
		if _, err := planned(t, "7.10.2-demo", strings.Fields(c.args)...); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.wants) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}
