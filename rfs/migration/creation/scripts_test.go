package creation

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// emptyTarget has nothing and takes everything; it keeps what was put.
type emptyTarget map[string]string

func (e emptyTarget) Do(_ context.Context, method, path string, _ url.Values, body []byte) (int, []byte, error) {
	if method == http.MethodGet {
		return http.StatusNotFound, []byte("{}"), nil
	}
	e[path] = string(body)
	return http.StatusOK, []byte("{}"), nil
}

// TestScriptsThatAnOldClusterKeptInAnIndexAreMigrated reads a snapshot of Elasticsearch 2.4.6 that
// has scripts of three languages and a search template.
func TestScriptsThatAnOldClusterKeptInAnIndexAreMigrated(t *testing.T) {
	blobs, err := repo.NewDir("../worker/testdata/scripts-2.4.6")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	on := emptyTarget{}
	globals := &Globals{
		Cluster: on, Version: target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19},
		Wanted: metadata.Selection{Scripts: true}, Log: slog.New(slog.DiscardHandler),
	}
	done, err := globals.Migrate(t.Context(), plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"script half", "script find", "script text"}; !slices.Equal(done.Created, want) {
		t.Errorf("created %q", done.Created)
	}
	for path, body := range map[string]string{
		"/_scripts/half": `{"script":{"lang":"expression","source":"doc['a'].value / 2"}}`,
		"/_scripts/find": `{"script":{"lang":"mustache","source":{"query":{"match":{"title":"{{q}}"}}}}}`,
		"/_scripts/text": `{"script":{"lang":"mustache","source":"{\"query\":{\"match_all\":{}}}"}}`,
	} {
		if on[path] != body {
			t.Errorf("%s: %s", path, on[path])
		}
	}
	if len(done.LeftOut) != 1 || done.LeftOut[0].Name != "groovy#old" || done.LeftOut[0].Reason != "the target has no script language groovy" {
		t.Errorf("left out %+v", done.LeftOut)
	}

	globals.Wanted.Scripts = false
	if done, err = globals.Migrate(t.Context(), plan, nil); err != nil || len(done.Created) > 0 || len(done.LeftOut) != 1 || done.LeftOut[0].Name != "index .scripts" {
		t.Errorf("not asked for: %+v, %v", done, err)
	}
}
