package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// TestPermitted_IndicesOfARedrive checks to which indices lines of a session's files may be sent.
func TestPermitted_IndicesOfARedrive(t *testing.T) {
	migration := func(rules string) *cms.Coordinator {
		c := control(t)
		if _, err := session.Of(c).CreateIndexEntry(t.Context(), session.IndexEntry{Name: "old", Shards: 1, Body: json.RawMessage(`{"naming":{"index":"logs"}}`)}); err != nil {
			t.Fatal(err)
		}
		if _, err := session.Of(c).Init(t.Context(), session.Meta{Settings: map[string]string{"repository": "s3://r", "rules": rules}}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	failedIn := func(c *cms.Coordinator, index string) *cms.Coordinator {
		if err := session.Of(c).KeepFailedAt(t.Context(), "p", session.FailedAt{Place: "x", Sums: []session.FailedSum{{Index: index, Class: "other", Count: 1}}}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	named := func(names ...string) (s pattern.Selection) {
		for _, name := range names {
			p, err := pattern.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			s.Include = append(s.Include, p)
		}
		return s
	}
	for _, c := range []struct {
		name   string
		kept   *cms.Coordinator
		o      options
		index  string
		permit bool
	}{
		{"a target of the session", migration(""), options{}, "logs", true},
		{"its name in the snapshot", migration(""), options{}, "old", false},
		{"another index", migration(""), options{}, "payroll", false},
		{"another index that is named", migration(""), options{named: true, indices: named("pay*")}, "payroll", true},
		{"a target beside one that is named", migration(""), options{named: true, indices: named("pay*")}, "logs", true},
		{"another index of which documents failed, without rules", failedIn(migration(""), "payroll"), options{}, "payroll", false},
		{"a target of rules, of which documents failed", failedIn(migration("digest"), "routed"), options{}, "routed", true},
		{"another target of rules", migration("digest"), options{}, "routed", false},
		{"an index of an import", failedIn(control(t), "imported"), options{}, "imported", true},
		{"another index beside an import", failedIn(control(t), "imported"), options{}, "payroll", false},
		{"no state, and a name", nil, options{named: true, indices: named("logs")}, "logs", true},
		{"no state, and another name", nil, options{named: true, indices: named("logs")}, "payroll", false},
		{"rfsd's own", control(t), options{named: true, indices: named("*"), includeSystem: true}, ".rfs_control_x", false},
		{"rfsd's own items", failedIn(control(t), ".rfs_items-work"), options{includeSystem: true}, ".rfs_items-work", false},
		{"of the system", control(t), options{named: true, indices: named("*")}, ".kibana_1", false},
		{"of the system, which is included", control(t), options{named: true, indices: named("*"), includeSystem: true}, ".kibana_1", true},
		{"a backing index", control(t), options{named: true, indices: named("*")}, ".ds-logs-000001", true},
		{"several indices", control(t), options{named: true, indices: named("*")}, "logs,payroll", false},
		{"a pattern", control(t), options{named: true, indices: named("*")}, "lo*", false},
		{"a path", control(t), options{named: true, indices: named("*")}, "logs/_doc/1", false},
		{"no name", control(t), options{named: true, indices: named("*")}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			permit, err := permitted(t.Context(), c.o, c.kept)
			if err != nil {
				t.Fatal(err)
			}
			if why := permit(c.index); (why == "") != c.permit {
				t.Errorf("%q: %q", c.index, why)
			}
		})
	}
}

// TestRedrive_OfASessionThatNeverBegan is an error, and leaves nothing behind.
func TestRedrive_OfASessionThatNeverBegan(t *testing.T) {
	var asked []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			_, _ = w.Write([]byte(`{"name":"n","cluster_uuid":"u","version":{"distribution":"opensearch","number":"2.19.4"}}`))
			return
		}
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{}`))
	}))
	defer target.Close()
	dir := t.TempDir()
	for name, more := range map[string][]string{
		"in the target":             nil,
		"in a file":                 {"--coordinator-file", filepath.Join(dir, "none.db")},
		"and no name of an index":   {"--failed-documents", dir},
		"and no place of documents": {"--index-allowlist", "logs"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			app := newApp()
			app.Writer, app.ExitErrHandler = &out, func(*cli.Context, error) {}
			err := app.RunContext(t.Context(), append([]string{"rfsd", "redrive", "--target-host", target.URL, "--session-name", "never"}, more...))
			if !errors.Is(err, state.ErrNone) || strings.Contains(out.String(), "nothing to send") {
				t.Errorf("%v: %s", err, out.String())
			}
		})
	}
	for _, a := range asked {
		if !strings.HasPrefix(a, "HEAD ") && !strings.HasPrefix(a, "GET ") {
			t.Errorf("it sent %s", a)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
