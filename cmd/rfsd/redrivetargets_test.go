package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// TestPermitted_IndicesOfARedrive checks to which indices lines of a session's files may be sent. Records of the session that name
// other indices, as a writer of the control index can make them, permit none.
func TestPermitted_IndicesOfARedrive(t *testing.T) {
	kept := control(t)
	forged := session.IndexEntry{Name: "old", Shards: 1, Body: json.RawMessage(`{"naming":{"index":"payroll"}}`)}
	if _, err := session.EntriesOf(kept).Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	if _, err := session.IdentityOf(kept).Init(t.Context(), session.Meta{Settings: map[string]string{"repository": "s3://r", "rules": "digest"}}); err != nil {
		t.Fatal(err)
	}
	for _, index := range []string{"payroll", "routed", ".rfs_items-work"} {
		if err := session.PlacesOf(kept).Keep(t.Context(), "p-"+index, session.FailedAt{Place: "x", Sums: []session.FailedSum{{Index: index, Class: "other", Count: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	token, err := session.IdentityOf(kept).Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	marked := func(session, kind, name, token string) string {
		return fmt.Sprintf(`{%q:{"mappings":{"_meta":{"rfsd":{"session":%q,"kind":%q,"name":%q,"mark":%q}}}}}`, name, session, kind, name, token)
	}
	indices := map[string]string{
		"logs": marked("move", "index", "logs", token), "trial-logs": marked("move", "scratch", "trial-logs", token),
		"payroll": `{"payroll":{"mappings":{}}}`, "routed": `{"routed":{"mappings":{}}}`,
		"earlier": marked("move", "index", "earlier", "former"), "others": marked("other", "index", "others", token),
		"alias": marked("move", "index", "logs", token), "copied": strings.Replace(marked("move", "index", "logs", token), `{"logs"`, `{"copied"`, 1),
		".ds-events-000001":    marked("move", "data-stream", ".ds-events-000001", token),
		"_data_stream/unknown": `{"data_streams":[]}`,
	}
	indices[".ds-events-000001"] = strings.Replace(indices[".ds-events-000001"], `"name":".ds-events-000001"`, `"name":"events"`, 1)
	indices["events"] = indices[".ds-events-000001"]
	indices["_data_stream/events"] = `{"data_streams":[{"name":"events","indices":[{"index_name":".ds-events-000001"}]}]}`
	asked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := indices[strings.TrimPrefix(r.URL.Path, "/")]
		switch {
		case r.URL.Path == "/broken":
			w.WriteHeader(http.StatusForbidden)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(answer))
	})
	server := httptest.NewServer(asked)
	defer server.Close()
	client, err := target.New(t.Context(), target.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // it only read
	ledger := rollback.NewLedger(client, kept, "move", slog.New(slog.DiscardHandler))
	named := func(names ...string) (o options) {
		o.named = true
		for _, name := range names {
			p, err := pattern.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			o.indices.Include = append(o.indices.Include, p)
		}
		return o
	}
	system := func(o options) options {
		o.includeSystem = true
		return o
	}
	for _, c := range []struct {
		name    string
		ledger  *rollback.Ledger
		o       options
		index   string
		permit  bool
		command string
	}{
		{"an index of the session", ledger, options{}, "logs", true, ""},
		{"an index of a trial run", ledger, options{}, "trial-logs", true, ""},
		{"a data stream of the session", ledger, options{}, "events", true, ""},
		{"the target of a forged entry", ledger, options{}, "payroll", false, "rfsd redrive --index-allowlist payroll"},
		{"the target of a forged entry, which is named", ledger, named("pay*"), "payroll", true, ""},
		{"the index of a forged failure", ledger, options{}, "routed", false, "rfsd redrive --index-allowlist routed"},
		{"an index of an earlier session of the name", ledger, options{}, "earlier", false, ""},
		{"an index of another session", ledger, options{}, "others", false, ""},
		{"an alias of an index of the session", ledger, options{}, "alias", false, ""},
		{"an index with the mark of another", ledger, options{}, "copied", false, ""},
		{"an index that the target does not have", ledger, options{}, "absent", false, ""},
		{"an index of the session, while another is named", ledger, named("pay*"), "logs", true, ""},
		{"no state, and a name", nil, named("logs"), "logs", true, ""},
		{"no state, and another name", nil, named("logs"), "payroll", false, "rfsd redrive --index-allowlist payroll"},
		{"the target of an entry in a file of this operator", ledger, options{coordinatorFile: "state.db"}, "payroll", true, ""},
		{"the index of a failure in a file of this operator", ledger, options{coordinatorFile: "state.db"}, "routed", true, ""},
		{"another index, with a file of this operator", ledger, options{coordinatorFile: "state.db"}, "others", false, ""},
		{"rfsd's own", ledger, system(named("*")), ".rfs_control_x", false, ""},
		{"rfsd's own items, of which documents failed", ledger, system(options{}), ".rfs_items-work", false, ""},
		{"of the system", ledger, named("*"), ".kibana_1", false, "rfsd redrive --include-system --index-allowlist .kibana_1"},
		{"of the system, which is included", ledger, system(named("*")), ".kibana_1", true, ""},
		{"a backing index", ledger, named("*"), ".ds-logs-000001", true, ""},
		{"several indices", ledger, named("*"), "logs,payroll", false, ""},
		{"a pattern", ledger, named("*"), "lo*", false, ""},
		{"a path", ledger, named("*"), "logs/_doc/1", false, ""},
		{"no name", ledger, named("*"), "", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := kept
			if c.ledger == nil {
				state = nil
			}
			p, err := newWritable(t.Context(), c.o, state, c.ledger, (&config.Call{Name: "rfsd redrive"}).With)
			if err != nil {
				t.Fatal(err)
			}
			why, err := p.mayNot(t.Context(), c.index)
			if err != nil || (why == "") != c.permit {
				t.Errorf("%q: %q, %v", c.index, why, err)
			}
			if c.command != "" && !strings.HasSuffix(why, ": "+c.command) {
				t.Errorf("%q names no command that sends them, want %q", why, c.command)
			}
		})
	}
	p := writable{ledger: ledger}
	if why, err := p.mayNot(t.Context(), "broken"); err == nil {
		t.Errorf("an index that cannot be read: %q", why)
	}
}

// TestRedrive_OfASessionThatNeverBegan is an error, and leaves nothing behind.
func TestRedrive_OfASessionThatNeverBegan(t *testing.T) {
	var asked []string
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			_, _ = w.Write([]byte(`{"name":"n","cluster_uuid":"u","version":{"distribution":"opensearch","number":"2.19.4"}}`))
			return
		}
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{}`))
	}))
	defer cluster.Close()
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
			err := app.RunContext(t.Context(), append([]string{"rfsd", "redrive", "--target-host", cluster.URL, "--session-name", "never"}, more...))
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
