package creation_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
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

// ofSnapshot returns the plan of a snapshot in a directory, and what migrates the wanted parts of its cluster's state to a target.
func ofSnapshot(t *testing.T, dir, name string, on emptyTarget, wanted metadata.Selection) (*plan.Plan, *creation.Globals) {
	t.Helper()
	blobs, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: name, MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	return p, &creation.Globals{
		Cluster: on, Version: target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19},
		Wanted: wanted, Log: slog.New(slog.DiscardHandler),
	}
}

// TestScriptsThatAnOldClusterKeptInAnIndexAreMigrated reads a snapshot of Elasticsearch 2.4.6 that
// has scripts of three languages and a search template.
func TestScriptsThatAnOldClusterKeptInAnIndexAreMigrated(t *testing.T) {
	on := emptyTarget{}
	plan, globals := ofSnapshot(t, "../worker/testdata/scripts-2.4.6", "snap1", on, metadata.Selection{Scripts: true})
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

// TestGlobals_PoliciesOfOpenSearchAreMigrated reads a snapshot of OpenSearch 2.19.4 with ISM policies and what they manage, as the
// plugin had written them.
func TestGlobals_PoliciesOfOpenSearchAreMigrated(t *testing.T) {
	on := emptyTarget{}
	plan, globals := ofSnapshot(t, "testdata/os2.19.4-policies", "s1", on, metadata.Selection{Policies: true})
	done, err := globals.Migrate(t.Context(), plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"ism-policy keep", "ism-policy logs"}; !slices.Equal(done.Created, want) {
		t.Errorf("created %q", done.Created)
	}
	const retry = `{"retry":{"backoff":"exponential","count":3,"delay":"1m"}`
	reads := `"actions":[{"read_only":{},` + retry[1:] + `}]`
	if got, want := on["/_plugins/_ism/policies/keep"], `{"policy":{"default_state":"warm","description":"read-only","states":[{`+reads+`,"name":"warm","transitions":[]}]}}`; got != want {
		t.Errorf("keep: %s\nwant %s", got, want)
	}
	if got := on["/_plugins/_ism/policies/logs"]; strings.Contains(got, "ism_template") || strings.Contains(got, "policy_id") || !strings.Contains(got, `"min_rollover_age":"30d"`) {
		t.Errorf("logs: %s", got)
	}
	wanted, _, err := globals.Plan(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	var details []string
	for _, c := range wanted.Objects[1].Changes {
		details = append(details, c.Rule+" "+c.Detail)
	}
	if got := strings.Join(details, "; "); !strings.Contains(got, "add it to the policy for logs-*") || !strings.Contains(got, "repository r: register it") {
		t.Errorf("changes %s", got)
	}

	globals.Wanted.Policies = false
	done, err = globals.Migrate(t.Context(), plan, nil)
	if err != nil || len(done.Created) > 0 || !slices.ContainsFunc(done.LeftOut, func(l creation.GlobalLeftOut) bool {
		return l.Name == "index .opendistro-ism-config" && strings.Contains(l.Reason, "--include policies")
	}) {
		t.Errorf("not asked for: %+v, %v", done, err)
	}
}

// TestGlobals_AttachmentsOfIndices finds which policy managed which index of that snapshot, and which index its alias writes to.
func TestGlobals_AttachmentsOfIndices(t *testing.T) {
	plan, globals := ofSnapshot(t, "testdata/os2.19.4-policies", "s1", emptyTarget{}, metadata.Selection{Policies: true, Attach: true})
	got, err := globals.Attachments(t.Context(), plan)
	want := map[string]metadata.Attachment{
		"audit": {Policy: "keep"}, "logs-000001": {Policy: "logs", Alias: "logs", RolledOver: true}, "logs-000002": {Policy: "logs", Alias: "logs"},
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
