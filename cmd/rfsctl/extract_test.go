package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/dashboardstest"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// withPolicies is a repository of OpenSearch 2.19.4 whose index .kibana_1 has objects of the default space and of the space ops.
var withPolicies = filepath.Join("..", "..", "rfs", "migration", "creation", "testdata", "os2.19.4-policies")

func TestExtractSnapshot(t *testing.T) {
	files := strings.Join([]string{
		"FILE                        OBJECTS  APPLY WITH",
		"saved-objects-ops.ndjson          1  POST api/saved_objects/_import",
		"saved-objects.ndjson              4  POST api/saved_objects/_import",
		"snapshot-policy-daily.json        1  POST _plugins/_sm/policies/daily",
		"left out: 1 × config: settings of one version of Kibana",
		"left out: 1 × lens: OpenSearch Dashboards does not import this type",
		"left out: 1 × reference to lens: its object is left out: the panel stays empty",
		"left out: 1 × space: OpenSearch Dashboards does not import this type",
		"left out: 1 × ui-metric: OpenSearch Dashboards does not import this type",
		"",
	}, "\n")
	none := []string{}
	const documented = "the example of docs/TEMPLATES.md"
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "TEMPLATES.md"))
	if err != nil {
		t.Fatal(err)
	}
	imported := []string{"dashboard:d1", "index-pattern:p1", "index-pattern:p2", "visualization:v1"}
	for _, c := range []struct {
		name    string
		tenants map[string]bool
		broken  string
		stored  []dashboardstest.Object
		args    []string // after the snapshot, the directory and the address
		code    int
		out     string // after the files
		err     string // a part of it
		global  []string
	}{
		{
			"all", map[string]bool{"ann": true, "global_tenant": true, "ops": true}, "", nil, nil, 0, strings.Join([]string{
				"", "FILE                      TENANT  IMPORTED  EXISTING  REFUSED", "saved-objects-ops.ndjson  ops            1         0        0", "saved-objects.ndjson      global         4         0        0", "",
			}, "\n"), "", imported,
		},
		{
			"one exists, one is refused, and a tenant does not exist", map[string]bool{"ann": true, "global_tenant": true}, "v1",
			[]dashboardstest.Object{{Type: "index-pattern", ID: "p1", Attributes: map[string]any{"title": "mine"}}}, nil, 7, strings.Join([]string{
				"", "FILE                      TENANT  IMPORTED  EXISTING  REFUSED", "saved-objects-ops.ndjson                 0         0        0", "saved-objects.ndjson      global         2         1        1",
				"not imported: saved-objects-ops.ndjson: the user ann has no tenant ops: create it and permit the user to write to it, or import the file into another tenant",
				"exists, and stays: saved-objects.ndjson: index-pattern p1 (old-*)",
				"refused: saved-objects.ndjson: visualization v1 (n): status 500: An internal server error occurred.", "",
			}, "\n"), "", imported[:3],
		},
		{
			documented, map[string]bool{"ann": true, "global_tenant": true}, "", []dashboardstest.Object{{Type: "index-pattern", ID: "p1"}}, nil, 7, strings.Join([]string{
				"", "FILE                      TENANT  IMPORTED  EXISTING  REFUSED", "saved-objects-ops.ndjson                 0         0        0", "saved-objects.ndjson      global         3         1        0",
				"not imported: saved-objects-ops.ndjson: the user ann has no tenant ops: create it and permit the user to write to it, or import the file into another tenant",
				"exists, and stays: saved-objects.ndjson: index-pattern p1 (old-*)", "",
			}, "\n"), "", imported,
		},
		{
			"dry run", map[string]bool{"ann": true, "global_tenant": true, "ops": true}, "", nil, []string{"--dry-run"}, 0, strings.Join([]string{
				"", "FILE                      TENANT  TO IMPORT  EXISTING  REFUSED", "saved-objects-ops.ndjson  ops             1         0        0", "saved-objects.ndjson      global          4         0        0", "",
			}, "\n"), "", none,
		},
		{"a wrong user", nil, "", nil, []string{"--dashboards-username", "eve"}, 1, "\nFILE                      TENANT  IMPORTED  EXISTING  REFUSED\nsaved-objects-ops.ndjson                 0         0        0\n", "import of saved-objects-ops.ndjson: GET /api/v1/auth/authinfo: status 401: Authentication Exception; the dashboards refuses the user: check --dashboards-username", none},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := (&dashboardstest.Server{User: "ann", Password: "s3cret", Tenants: c.tenants, Broken: c.broken}).Start(t)
			s.Put("", c.stored...)
			t.Setenv("RFS_DASHBOARDS_PASSWORD", "s3cret")
			dir := filepath.Join(t.TempDir(), "out")
			args := []string{
				"rfsctl", "snapshot", "extract", "--repo-uri", withPolicies, "--snapshot-name", "s1", "--to", dir, "--index-rename", "logs-*=old-$1",
				"--dashboards-host", s.URL, "--dashboards-username", "ann",
			}
			if slices.Contains(c.args, "--dashboards-username") {
				args = args[:len(args)-2]
			}
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append(args, c.args...), &stdout, &stderr)
			if int(code) != c.code || stdout.String() != files+c.out || !strings.Contains(stderr.String(), c.err) || strings.Contains(stderr.String(), "s3cret") {
				t.Errorf("exit %d: %s%s", code, stdout.String(), stderr.String())
			}
			if c.name == documented && !bytes.Contains(page, []byte("…\n"+c.out+"```")) {
				t.Errorf("the page has no %s", c.out)
			}
			if got := s.Objects(""); !slices.Equal(got, c.global) {
				t.Errorf("imported %q", got)
			}
			for _, name := range []string{"saved-objects.ndjson", "saved-objects-ops.ndjson"} {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestExtractSnapshot_JSON(t *testing.T) {
	s := (&dashboardstest.Server{Tenants: map[string]bool{"global_tenant": true}}).Start(t)
	s.Put("", dashboardstest.Object{Type: "index-pattern", ID: "p1"})
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{
		"rfsctl", "snapshot", "extract", "--repo-uri", withPolicies, "--snapshot-name", "s1", "--to", t.TempDir(), "--dashboards-host", s.URL, "--dry-run", "--output", "json",
	}, &stdout, &stderr)
	var got extracted
	if err := outputtest.Decode(stdout.Bytes(), &got); code != 7 || err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout.String(), stderr.String())
	}
	if len(got.Files) != 3 || len(got.Left) != 5 || !got.DryRun || len(got.Imports) != 2 || got.Imports[0].Skipped == "" {
		t.Errorf("%+v", got)
	}
	if x := got.Imports[1]; x.File != "saved-objects.ndjson" || x.Tenant != "global" || len(x.Imported) != 3 || len(x.Existing) != 1 || x.Existing[0].ID != "p1" || len(x.Refused) != 0 {
		t.Errorf("%+v", x)
	}
}

func TestExtractSnapshot_Usage(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		text string
	}{
		{"a dry run without an address", []string{"--dry-run"}, "give --dashboards-host, too"},
		{"two addresses", []string{"--dashboards-host", "http://127.0.0.1:1,http://127.0.0.1:2"}, "--dashboards-host takes one address"},
		{"a tenant for all files", []string{"--dashboards-host", "http://127.0.0.1:1", "--dashboards-header", "securitytenant: x"}, "--dashboards-header sets no tenant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append([]string{"rfsctl", "snapshot", "extract", "--repo-uri", withPolicies, "--snapshot-name", "s1", "--to", dir}, c.args...), &stdout, &stderr)
			if _, err := os.Stat(dir); code != 1 || !strings.Contains(stderr.String(), c.text) || !os.IsNotExist(err) {
				t.Errorf("exit %d: %s, %v", code, stderr.String(), err)
			}
		})
	}
}
