package dashboards_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/destination/dashboards"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/testing/dashboardstest"
)

// importer returns an Importer for a server, without pauses.
func importer(url string) *dashboards.Importer {
	return &dashboards.Importer{
		Connect: func(ctx context.Context, tenant string) (dashboards.API, error) {
			headers := http.Header{}
			headers.Set("osd-xsrf", "true")
			if tenant != "" {
				headers.Set("securitytenant", tenant)
			}
			return target.New(ctx, target.Config{Role: "dashboards", URL: url, Username: "ann", Password: "s3cret", Headers: headers})
		},
		Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}

// file writes lines to a file.
func file(t *testing.T, lines ...string) dashboards.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "saved-objects.ndjson")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dashboards.File{Path: path}
}

// object returns the line of an object that refers to others; version is its migration version.
func object(kind, id, version string, refs ...string) string {
	var references []string
	for _, r := range refs {
		to, id, _ := strings.Cut(r, ":")
		references = append(references, fmt.Sprintf(`{"name":"n","type":%q,"id":%q}`, to, id))
	}
	return fmt.Sprintf(`{"id":%q,"type":%q,"attributes":{"title":"T"},"references":[%s],"migrationVersion":{%q:%q}}`, id, kind, strings.Join(references, ","), kind, version)
}

// outcome returns a result as lines.
func outcome(r dashboards.Result) []string {
	all := []string{}
	for _, o := range r.Imported {
		all = append(all, "imported "+o.String())
	}
	for _, o := range r.Existing {
		all = append(all, "exists "+o.String())
	}
	for _, o := range r.Refused {
		all = append(all, "refused "+o.Object.String()+": "+o.Reason)
	}
	if r.Skipped != "" {
		all = append(all, "skipped "+r.Skipped)
	}
	slices.Sort(all)
	return all
}

const (
	isPattern, isSearch, isVisualization, isDashboard = "7.6.0", "7.9.3", "7.10.0", "7.9.3"
)

func TestImporter_Import(t *testing.T) {
	pattern, search := object("index-pattern", "p", isPattern), object("search", "s", isSearch, "index-pattern:p")
	vis, dash := object("visualization", "v", isVisualization, "search:s"), object("dashboard", "d", isDashboard, "visualization:v")
	stored := func(kind, id string) dashboardstest.Object {
		return dashboardstest.Object{Type: kind, ID: id, Attributes: map[string]any{"title": "kept"}}
	}
	for _, c := range []struct {
		name     string
		server   *dashboardstest.Server // nil: as it is by default
		stored   []dashboardstest.Object
		lines    []string
		want     []string
		objects  []string
		unknown  bool // a dry run cannot know it
		requests int
	}{
		{
			name: "all are new", lines: []string{dash, vis, search, pattern},
			want:    []string{"imported dashboard d (T)", "imported index-pattern p (T)", "imported search s (T)", "imported visualization v (T)"},
			objects: []string{"dashboard:d", "index-pattern:p", "search:s", "visualization:v"}, requests: 1,
		},
		{
			// OpenSearch Dashboards answers that three objects were imported, but creates none while one exists.
			name: "one exists", stored: []dashboardstest.Object{stored("index-pattern", "p")}, lines: []string{pattern, search, vis, dash},
			want:    []string{"exists index-pattern p (T)", "imported dashboard d (T)", "imported search s (T)", "imported visualization v (T)"},
			objects: []string{"dashboard:d", "index-pattern:p", "search:s", "visualization:v"}, requests: 2,
		},
		{
			name: "all exist", stored: []dashboardstest.Object{stored("index-pattern", "p"), stored("search", "s")}, lines: []string{pattern, search},
			want: []string{"exists index-pattern p (T)", "exists search s (T)"}, objects: []string{"index-pattern:p", "search:s"}, requests: 1,
		},
		{
			name: "a missing index pattern, and what refers to it in steps", lines: []string{search, vis, dash},
			want: []string{
				"imported dashboard d (T)", "refused search s (T): refers to objects that do not exist: index-pattern p",
				"refused visualization v (T): refers to objects that do not exist: search s",
			},
			objects: []string{"dashboard:d"}, requests: 3,
		},
		{
			name: "one exists and refers to a missing object", stored: []dashboardstest.Object{stored("search", "s")}, lines: []string{search, dash},
			want: []string{"exists search s (T)", "imported dashboard d (T)"}, objects: []string{"dashboard:d", "search:s"}, requests: 2,
		},
		{
			name: "an unsupported type", lines: []string{object("lens", "l", "1.0.0"), pattern}, want: []string{"imported index-pattern p (T)", "refused lens l (T): OpenSearch Dashboards has no such type"},
			objects: []string{"index-pattern:p"}, unknown: true, requests: 1,
		},
		{
			name: "a version from the future", lines: []string{pattern, object("index-pattern", "q", "8.1.0"), search},
			want: []string{
				"imported index-pattern p (T)", "imported search s (T)",
				`refused index-pattern q (T): status 422: Document "q" has property "index-pattern" which belongs to a more recent version of OpenSearch Dashboards [8.1.0]. The last known version is [7.6.0]`,
			},
			objects: []string{"index-pattern:p", "search:s"}, unknown: true, requests: 5,
		},
		{
			name: "a migration that fails", server: &dashboardstest.Server{Broken: "v"}, lines: []string{pattern, search, vis, dash},
			want:    []string{"imported dashboard d (T)", "imported index-pattern p (T)", "imported search s (T)", "refused visualization v (T): status 500: An internal server error occurred."},
			objects: []string{"dashboard:d", "index-pattern:p", "search:s"}, unknown: true, requests: 5,
		},
		{
			name: "an error of later versions, which prevents the creation of others", server: &dashboardstest.Server{Sourceless: "v"}, lines: []string{pattern, search, vis},
			want:    []string{"imported index-pattern p (T)", "imported search s (T)", "refused visualization v (T): missing_data_source"},
			objects: []string{"index-pattern:p", "search:s"}, unknown: true, requests: 2,
		},
		{
			name: "an object twice", lines: []string{pattern, pattern}, want: []string{"exists index-pattern p (T)", "imported index-pattern p (T)"},
			objects: []string{"index-pattern:p"}, unknown: true, requests: 3,
		},
		{
			name: "a server that takes two objects", server: &dashboardstest.Server{MaxObjects: 2}, lines: []string{pattern, search, vis, dash},
			want:    []string{"imported dashboard d (T)", "imported index-pattern p (T)", "imported search s (T)", "imported visualization v (T)"},
			objects: []string{"dashboard:d", "index-pattern:p", "search:s", "visualization:v"}, requests: 3,
		},
		{
			name: "an object larger than the server takes", server: &dashboardstest.Server{MaxBytes: 2000}, lines: []string{pattern, search, object("query", strings.Repeat("q", 2000), "")},
			want: []string{
				"imported index-pattern p (T)", "imported search s (T)",
				"refused query " + strings.Repeat("q", 2000) + " (T): status 413: Payload content length greater than maximum allowed: 2000",
			},
			objects: []string{"index-pattern:p", "search:s"}, unknown: true, requests: 5,
		},
		{name: "no objects", want: []string{}, objects: []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := cmp.Or(c.server, &dashboardstest.Server{}).Start(t)
			s.Put("", c.stored...)
			before := s.Objects("")
			f := file(t, c.lines...)
			if len(c.lines) == 0 {
				f = dashboards.File{Path: os.DevNull}
			}
			dry := importer(s.URL)
			dry.DryRun = true
			r, err := dry.Import(t.Context(), f)
			if got := outcome(r); err != nil || !c.unknown && !slices.Equal(got, c.want) {
				t.Errorf("dry run: %q, %v", got, err)
			}
			if got := s.Objects(""); !slices.Equal(got, before) || imports(s) != 0 {
				t.Errorf("after the dry run: %q, %q", got, s.Requests())
			}
			if r, err = importer(s.URL).Import(t.Context(), f); err != nil || !slices.Equal(outcome(r), c.want) {
				t.Errorf("%q, %v", outcome(r), err)
			}
			if complete := len(r.Refused) == 0; r.Complete() != complete {
				t.Errorf("complete: %t", !complete)
			}
			if got := s.Objects(""); !slices.Equal(got, c.objects) || imports(s) != c.requests {
				t.Errorf("after %d imports: %q", imports(s), got)
			}
			for _, o := range c.stored {
				if got := s.Object("", o.Type+":"+o.ID); got.Attributes["title"] != "kept" {
					t.Errorf("%s %s was replaced: %v", o.Type, o.ID, got)
				}
			}
		})
	}
}

// imports returns the number of imports that a server was asked for.
func imports(s *dashboardstest.Server) (n int) {
	for _, r := range s.Requests() {
		if strings.HasSuffix(r, "/_import") {
			n++
		}
	}
	return n
}

// TestImporter_ManyObjects: objects that do not fit into a request come after the objects that they refer to.
func TestImporter_ManyObjects(t *testing.T) {
	for _, c := range []struct {
		name     string
		n, size  int
		requests int
	}{{"many", 2500, 1, 3}, {"large", 4, 300 << 10, 2}, {"larger than a request", 2, 1 << 20, 3}} {
		t.Run(c.name, func(t *testing.T) {
			s := new(dashboardstest.Server).Start(t)
			var lines []string
			for i := range c.n {
				line := object("visualization", fmt.Sprint("v", i), isVisualization, "search:s")
				lines = append(lines, strings.Replace(line, `"T"`, `"T","visState":"`+strings.Repeat("v", c.size)+`"`, 1))
			}
			f := file(t, append(lines, object("search", "s", isSearch, "index-pattern:p"), object("index-pattern", "p", isPattern))...)
			for _, dry := range []bool{true, false} {
				i := importer(s.URL)
				i.DryRun = dry
				r, err := i.Import(t.Context(), f)
				if err != nil || len(r.Imported) != c.n+2 || !r.Complete() {
					t.Fatalf("dry run %t: %d of %d are imported, %d refused, %v", dry, len(r.Imported), c.n+2, len(r.Refused), err)
				}
			}
			if got := len(s.Objects("")); got != c.n+2 || imports(s) != c.requests {
				t.Errorf("%d objects after %d imports", got, imports(s))
			}
		})
	}
}

func TestImporter_Tenants(t *testing.T) {
	for _, c := range []struct {
		name   string
		server *dashboardstest.Server
		from   string
		tenant string // of the server, that has the object; "-": none
		used   string
		skips  string
	}{
		{"without a security plugin", &dashboardstest.Server{}, "", "", "", ""},
		{"a tenant without a security plugin", &dashboardstest.Server{}, "ops", "-", "", "OpenSearch Dashboards has no tenant ops: its security plugin is not installed"},
		{"multitenancy is disabled", &dashboardstest.Server{Tenants: map[string]bool{"ann": true, "global_tenant": true}, Forwards: true}, "", "", "", ""},
		{"a tenant while multitenancy is disabled", &dashboardstest.Server{Tenants: map[string]bool{"ann": true, "ops": true}, Forwards: true}, "ops", "-", "", "OpenSearch Dashboards has no tenant ops: its multitenancy is disabled"},
		{"the global tenant", &dashboardstest.Server{Tenants: map[string]bool{"ann": true, "global_tenant": true}}, "", "", "global", ""},
		{"no global tenant", &dashboardstest.Server{Tenants: map[string]bool{"ann": true, "global_tenant": true}, NoGlobal: true}, "", "-", "global", "OpenSearch Dashboards uses the tenant __user__ in place of global for the user ann"},
		{"a global tenant to read", &dashboardstest.Server{Tenants: map[string]bool{"ann": true, "global_tenant": false}}, "", "-", "global", "the user ann may not write to the tenant global"},
		{"a tenant of that name", &dashboardstest.Server{Tenants: map[string]bool{"ann": true, "ops": true, "o-p-s": true}}, "ops", "ops", "ops", ""},
		{"a tenant with other characters", &dashboardstest.Server{Tenants: map[string]bool{"ann": true, "Ops Team": true}}, "opsteam", "Ops Team", "Ops Team", ""},
		{"two such tenants", &dashboardstest.Server{Tenants: map[string]bool{"ops-team": true, "Ops Team": true}}, "opsteam", "-", "", "several tenants may be opsteam (Ops Team, ops-team): import the file into one of them"},
		{"a tenant to read", &dashboardstest.Server{Tenants: map[string]bool{"ops": false}}, "ops", "-", "ops", "the user ann may not write to the tenant ops"},
		{"no such tenant", &dashboardstest.Server{Tenants: map[string]bool{"ann": true, "dev": true}}, "ops", "-", "", "the user ann has no tenant ops: create it and permit the user to write to it, or import the file into another tenant"},
		{"the user's own", &dashboardstest.Server{Tenants: map[string]bool{"ann": true}}, "ann", "ann", "ann", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.server.User, c.server.Password = "ann", "s3cret"
			s := c.server.Start(t)
			f := file(t, object("index-pattern", "p", isPattern))
			f.Tenant = c.from
			r, err := importer(s.URL).Import(t.Context(), f)
			if err != nil || r.Skipped != c.skips || r.Tenant != c.used || r.Complete() != (c.skips == "") {
				t.Errorf("%+v, %v", r, err)
			}
			for _, tenant := range []string{"", "__user__", "ann", "ops", "o-p-s", "Ops Team", "ops-team", "dev"} {
				want := []string{}
				if tenant == c.tenant {
					want = []string{"index-pattern:p"}
				}
				if got := s.Objects(tenant); !slices.Equal(got, want) {
					t.Errorf("tenant %q: %q", tenant, got)
				}
			}
		})
	}
}
