package metadata_test

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
)

var update = flag.Bool("update", false, "write what the target returns into the golden files")

// everything takes all kinds.
var everything = metadata.Selection{Pipelines: true, Scripts: true, Policies: true}

// globalsCase is the global metadata of one snapshot, and what the source cluster itself said of it.
type globalsCase struct {
	Sections map[string]json.RawMessage `json:"meta-data"`
	Truth    struct {
		Templates  map[string]map[string]any `json:"templates"`
		Components struct {
			List []struct {
				Name string
				Body map[string]any `json:"component_template"`
			} `json:"component_templates"`
		} `json:"component_templates"`
		Index struct {
			List []struct {
				Name string
				Body map[string]any `json:"index_template"`
			} `json:"index_templates"`
		} `json:"index_templates"`
		Pipelines map[string]map[string]any `json:"pipelines"`
	} `json:"truth"`
}

func readCase(t *testing.T, name string) globalsCase {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var c globalsCase
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t *testing.T, sections map[string]json.RawMessage) metadata.Globals {
	t.Helper()
	g, err := metadata.ParseGlobals(sections)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// targets runs a test on real nodes of both versions.
func targets(t *testing.T, f func(*testing.T, *target.Client, target.Version)) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	for _, version := range draw.Of(t, 1, []string{"2.19.4", "3.8.0"}) {
		t.Run(version, func(t *testing.T) {
			node := cluster.OpenSearch(t, version)
			c, err := target.New(t.Context(), target.Config{URL: node.URL})
			if err != nil {
				t.Fatal(err)
			}
			v, err := c.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f(t, c, v)
		})
	}
}

// clean removes all templates, pipelines and scripts.
func clean(t *testing.T, c *target.Client, names ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	paths := []string{"/_index_template/*", "/_component_template/*", "/_template/*", "/_ingest/pipeline/*"}
	for _, name := range names {
		if kind, name, _ := strings.Cut(name, " "); kind == string(metadata.Script) {
			paths = append(paths, "/_scripts/"+name)
		}
	}
	for _, p := range paths {
		if _, _, err := c.Do(ctx, http.MethodDelete, p, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func get(t *testing.T, c *target.Client, path string, out any) {
	t.Helper()
	status, answer, err := c.Do(t.Context(), http.MethodGet, path, nil, nil)
	if err == nil && status != http.StatusNotFound {
		err = fault.CheckStatus(path, status, answer)
		if err == nil {
			err = json.Unmarshal(answer, out)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// returned is what the target says of everything that was created, by "<kind> <name>".
func returned(t *testing.T, c *target.Client, created []string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, label := range created {
		kind, name, _ := strings.Cut(label, " ")
		var answer map[string]any
		switch metadata.Kind(kind) {
		case metadata.LegacyTemplate:
			get(t, c, "/_template/"+name, &answer)
			all[label] = answer[name]
		case metadata.ComponentTemplate:
			get(t, c, "/_component_template/"+name, &answer)
			all[label] = answer["component_templates"].([]any)[0].(map[string]any)["component_template"]
		case metadata.IndexTemplate:
			get(t, c, "/_index_template/"+name, &answer)
			all[label] = answer["index_templates"].([]any)[0].(map[string]any)["index_template"]
		case metadata.Pipeline:
			get(t, c, "/_ingest/pipeline/"+name, &answer)
			all[label] = answer[name]
		case metadata.Script:
			get(t, c, "/_scripts/"+name, &answer)
			all[label] = answer["script"]
		}
	}
	return all
}

// TestGlobalsOnRealTargets holds the promises about everything that belongs to no index
// against real nodes.
func TestGlobalsOnRealTargets(t *testing.T) {
	targets(t, func(t *testing.T, c *target.Client, v target.Version) {
		for _, promise := range []struct {
			name string
			hold func(*testing.T, *target.Client, target.Version)
		}{
			{"templates of every version are returned as the source had them", returnsTheTemplates},
			{"what is there keeps every setting", leavesWhatIsThere},
			{"several immediately create everything once", createsOnce},
			{"what the target lacks is left out and told", tellsWhatIsLacking},
		} {
			t.Run(promise.name, func(t *testing.T) {
				clean(t, c)
				promise.hold(t, c, v)
			})
		}
	})
}

// returnsTheTemplates compares what real targets say of the objects that were created with
// golden files that were read by people, and with the source's own words.
func returnsTheTemplates(t *testing.T, c *target.Client, v target.Version) {
	files, err := filepath.Glob("testdata/globals/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			in := readCase(t, file)
			clean(t, c)
			plan, err := metadata.ConvertGlobals(v, parse(t, in.Sections), everything)
			if err != nil {
				t.Fatal(err)
			}
			done, err := objects.EnsureGlobals(t.Context(), c, plan, nil)
			defer clean(t, c, done.Created...)
			if err != nil {
				t.Fatal(err)
			}
			var changes []string
			for _, ch := range done.Changes {
				changes = append(changes, ch.Index+": "+ch.Rule+" "+ch.Path)
			}
			got := map[string]any{"created": returned(t, c, done.Created), "changes": changes, "left": done.Left}
			golden(t, strings.TrimSuffix(file, ".json")+".golden", got)
			sameAsSource(t, in, got["created"].(map[string]any))

			again, err := objects.EnsureGlobals(t.Context(), c, plan, nil)
			if err != nil || len(again.Created) > 0 || !slices.Equal(again.Existed, done.Created) {
				t.Errorf("a second run: %+v, %v", again, err)
			}
		})
	}
}

func golden(t *testing.T, name string, got any) {
	t.Helper()
	b, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	if *update {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(b) {
		t.Errorf("differs from %s (-update writes it):\n%s", name, b)
	}
}

// sameAsSource holds what the target returns against what the source said of the same object.
// Mappings by type, and types that are gone, are the rules' matter and not compared here.
func sameAsSource(t *testing.T, in globalsCase, got map[string]any) {
	t.Helper()
	source := map[string]map[string]any{}
	for name, body := range in.Truth.Templates {
		source[string(metadata.LegacyTemplate)+" "+name] = body
	}
	for _, x := range in.Truth.Components.List {
		source[string(metadata.ComponentTemplate)+" "+x.Name] = x.Body
	}
	for _, x := range in.Truth.Index.List {
		source[string(metadata.IndexTemplate)+" "+x.Name] = x.Body
	}
	for name, body := range in.Truth.Pipelines {
		source[string(metadata.Pipeline)+" "+name] = body
	}
	for label, body := range source {
		there, ok := got[label].(map[string]any)
		if !ok {
			t.Errorf("%s is not on the target", label)
			continue
		}
		want := ordinary(body)
		if have := ordinary(there); !reflect.DeepEqual(have, want) {
			t.Errorf("%s:\n source %v\n target %v", label, want, have)
		}
	}
}
