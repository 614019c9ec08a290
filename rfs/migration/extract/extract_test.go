package extract_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/extract"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

func open(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	blobs, err := repo.NewDir("../creation/testdata/os2.19.4-policies")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(t.Context(), blobs)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := catalog.Snapshot(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func renames(t *testing.T, texts ...string) (o metadata.Overrides) {
	t.Helper()
	for _, text := range texts {
		r, err := metadata.ParseRenameRule(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Rename = append(o.Rename, r)
	}
	return o
}

// TestFiles_WritesWhatIsImported reads a snapshot of OpenSearch 2.19.4 whose index .kibana_1 has objects of several types, in the
// default space and another one.
func TestFiles_WritesWhatIsImported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	r, err := extract.Files(t.Context(), open(t), dir, extract.Options{Overrides: renames(t, "logs-*=old-$1", "audit=new-audit")})
	if err != nil {
		t.Fatal(err)
	}
	if want := []extract.File{
		{Name: "saved-objects-ops.ndjson", Objects: 1, Tenant: "ops", Apply: "POST api/saved_objects/_import"}, {Name: "saved-objects.ndjson", Objects: 4, Apply: "POST api/saved_objects/_import"},
		{Name: "snapshot-policy-daily.json", Objects: 1, Apply: "POST _plugins/_sm/policies/daily"},
	}; !slices.Equal(r.Files, want) {
		t.Errorf("files %+v", r.Files)
	}
	var left []string
	for _, l := range r.Left {
		left = append(left, l.What)
	}
	if want := []string{"config", "lens", "reference to lens", "space", "ui-metric"}; !slices.Equal(left, want) {
		t.Errorf("left out %q", left)
	}
	b, err := os.ReadFile(filepath.Join(dir, "saved-objects.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(b)) {
		var o struct{ Type, ID string }
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		lines[o.Type+":"+o.ID] = line
	}
	for id, want := range map[string][]string{
		"index-pattern:p1": {`"title":"old-*"`, `"migrationVersion":{"index-pattern":"7.6.0"}`, `"timeFieldName":"@timestamp"`},
		"index-pattern:p2": {`"title":"new-audit"`, `"migrationVersion":{"index-pattern":"7.6.0"}`},
		"visualization:v1": {`"references":[{"name":"kibanaSavedObjectMeta.searchSourceJSON.index","type":"index-pattern","id":"p1"}]`, `"visState":"{\"type\":\"histogram\"}"`},
		"dashboard:d1":     {`"panelsJSON":"[]"`, `"migrationVersion":{"dashboard":"7.9.3"}`, `"type":"lens","id":"l1"`},
	} {
		for _, part := range want {
			if !strings.Contains(lines[id], part) {
				t.Errorf("%s: %s, want %s", id, lines[id], part)
			}
		}
		for _, part := range []string{"namespace", "coreMigrationVersion"} {
			if strings.Contains(lines[id], part) {
				t.Errorf("%s: %s has %s", id, lines[id], part)
			}
		}
	}
	if _, err := extract.Files(t.Context(), open(t), dir, extract.Options{}); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("into a directory with files: %v", err)
	}
}

// TestFiles_TitlesThatCannotBeRenamed: a pattern whose indices get names of no common pattern becomes a list of them.
func TestFiles_TitlesThatCannotBeRenamed(t *testing.T) {
	for _, c := range []struct{ name, rename, rules, title string }{
		{"nothing is renamed", "other=x", "", "logs-*"},
		{"all by one pattern", "logs-*=old-$1", "", "old-*"},
		{"one of them", "logs-000001=first", "", "first,logs-000002"},
		{"by a rule", "other=x", "[[rename-index]]\nmatch = \"logs-*\"\nto = \"ruled-$1\"\n", "ruled-*"},
		{"by an option, and by a rule after it", "logs-*=old-$1", "[[rename-index]]\nmatch = \"old-*\"\nto = \"ruled-$1\"\n", "ruled-*"},
		{"to a pattern that others match, too", "logs-*=un$1", "", "un000001,un000002"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			o := extract.Options{Overrides: renames(t, c.rename)}
			if c.rules != "" {
				var err error
				if o.Rules, err = rules.Parse("rules.toml", []byte(c.rules)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := extract.Files(t.Context(), open(t), dir, o); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(dir, "saved-objects.ndjson"))
			if err != nil || !strings.Contains(string(b), `"title":"`+c.title+`"`) {
				t.Errorf("%s, %v", b, err)
			}
		})
	}
}
