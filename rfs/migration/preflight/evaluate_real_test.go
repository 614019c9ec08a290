package preflight_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/targettest"
)

// templateRepositories are repositories of real clusters that hold templates.
func templateRepositories(t *testing.T) []string {
	t.Helper()
	var all []string
	const root = "../../../testing/fixtures"
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && strings.Contains(e.Name(), "templates") {
			all = append(all, filepath.Join(root, e.Name()))
		}
	}
	if len(all) == 0 {
		t.Fatal("no repository with templates")
	}
	return all
}

func planOf(t *testing.T, path string) (*plan.Plan, repo.Repository) {
	t.Helper()
	blobs, err := repo.Open(t.Context(), path, repo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(t.Context(), blobs)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: catalog.Snapshots[len(catalog.Snapshots)-1].Name, MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	return plan, blobs
}

// TestAnEvaluationPreviewsTheMigrationAndWritesNothing evaluates snapshots with templates, migrates
// their metadata, and compares what was foretold with what was done.
func TestAnEvaluationPreviewsTheMigrationAndWritesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	repositories := templateRepositories(t)
	for _, version := range draw.Of(t, 1, []string{"2.19.4", "3.8.0"}) {
		node := cluster.OpenSearch(t, version)
		for _, path := range repositories {
			t.Run(version+"/"+filepath.Base(path), func(t *testing.T) { evaluateAndMigrate(t, node.URL, path) })
		}
	}
}

func evaluateAndMigrate(t *testing.T, url, path string) {
	requests := &targettest.RequestLog{}
	client, err := target.New(t.Context(), target.Config{URL: url, Wrap: requests.Wrap})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	v, err := client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, blobs := planOf(t, path)
	log := slog.New(slog.DiscardHandler)
	dry := objects.DryRunCluster{Target: client}
	e := &preflight.Evaluator{
		Target: client, Version: v, Repo: blobs, Only: preflight.Sections{preflight.Changes, preflight.Sizes},
		Indices: &creation.Indices{Cluster: dry, Version: v, Requester: client, Log: log},
		Globals: &creation.Globals{Cluster: dry, Version: v, Wanted: metadata.Selection{Pipelines: true}, Log: log},
	}
	said, err := e.Evaluate(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests.Requests() {
		method, uri, _ := strings.Cut(r, " ")
		if method != "GET" && method != "HEAD" && !strings.HasPrefix(uri, "/_index_template/_simulate") && !strings.HasPrefix(uri, "/_ingest/pipeline/_simulate") {
			t.Errorf("an evaluation sent %s", r)
		}
	}
	if said.Size.Repository == 0 || said.Size.Requests == 0 {
		t.Errorf("size %+v", said.Size)
	}
	globals := &creation.Globals{Cluster: client, Version: v, Wanted: metadata.Selection{Pipelines: true}, Log: log}
	done, err := globals.Migrate(t.Context(), plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(t, client, plan, done.Created) })
	compare(t, "created", said.Globals, preflight.WouldCreate, done.Created)
	compare(t, "existing", said.Globals, preflight.WouldKeep, done.Existed)
	for i, x := range plan.Indices {
		made := &creation.Indices{Cluster: client, Version: v, Requester: client, Log: log}
		_, err := made.Make(t.Context(), x)
		foretold := said.Indices[i].Targets[0]
		if (err != nil) != (foretold.Action == preflight.WouldRefuse) {
			t.Errorf("index %s was said to be %s %s, and: %v", x.Name, foretold.Action, foretold.Reason, err)
		}
	}
}

func compare(t *testing.T, what string, said []preflight.Object, action string, did []string) {
	t.Helper()
	var names []string
	for _, o := range said {
		if o.Action == action {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	did = slices.Sorted(slices.Values(did))
	if !slices.Equal(names, did) {
		t.Errorf("%s: said %v, did %v", what, names, did)
	}
}

// removeAll makes the target empty for the next repository.
func removeAll(t *testing.T, client *target.Client, p *plan.Plan, created []string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	paths := map[string]string{"template": "/_template/", "component-template": "/_component_template/", "index-template": "/_index_template/", "pipeline": "/_ingest/pipeline/"}
	for _, x := range p.Indices {
		for _, name := range x.Entry.Naming.Targets() {
			if _, _, err := client.Do(ctx, "DELETE", "/"+name, nil, nil); err != nil {
				t.Error(err)
			}
		}
	}
	for _, o := range slices.Backward(created) {
		for kind, path := range paths {
			if name, ok := strings.CutPrefix(o, kind+" "); ok {
				if _, _, err := client.Do(ctx, "DELETE", path+name, nil, nil); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
