package resend_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/stream/resend"
)

func control(t *testing.T) *cms.Coordinator {
	t.Helper()
	store, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return cms.New(cms.Config{Store: store, Creator: "test"})
}

func again(more ...string) string { return "rfsd redrive " + strings.Join(more, " ") }

// TestTargets_OfARedrive checks to which indices lines of a session's files may be sent. Records of the session that name
// other indices, as a writer of the control index can make them, permit none.
func TestTargets_OfARedrive(t *testing.T) {
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
	named := func(name string) resend.Targets {
		p, err := pattern.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		return resend.Targets{Named: p.Match}
	}
	system := func(o resend.Targets) resend.Targets {
		o.IncludeSystem = true
		return o
	}
	file, err := resend.Proven(t.Context(), kept, true)
	if err != nil {
		t.Fatal(err)
	}
	if cluster, err := resend.Proven(t.Context(), kept, false); err != nil || cluster != nil {
		t.Errorf("records that others can write prove %v, %v", cluster, err)
	}
	for _, c := range []struct {
		name    string
		ledger  *rollback.Ledger
		o       resend.Targets
		index   string
		permit  bool
		command string
	}{
		{"an index of the session", ledger, resend.Targets{}, "logs", true, ""},
		{"an index of a trial run", ledger, resend.Targets{}, "trial-logs", true, ""},
		{"a data stream of the session", ledger, resend.Targets{}, "events", true, ""},
		{"the target of a forged entry", ledger, resend.Targets{}, "payroll", false, "rfsd redrive --index-allowlist payroll"},
		{"the target of a forged entry, which is named", ledger, named("pay*"), "payroll", true, ""},
		{"the index of a forged failure", ledger, resend.Targets{}, "routed", false, "rfsd redrive --index-allowlist routed"},
		{"an index of an earlier session of the name", ledger, resend.Targets{}, "earlier", false, ""},
		{"an index of another session", ledger, resend.Targets{}, "others", false, ""},
		{"an alias of an index of the session", ledger, resend.Targets{}, "alias", false, ""},
		{"an index with the mark of another", ledger, resend.Targets{}, "copied", false, ""},
		{"an index that the target does not have", ledger, resend.Targets{}, "absent", false, ""},
		{"an index of the session, while another is named", ledger, named("pay*"), "logs", true, ""},
		{"no state, and a name", nil, named("logs"), "logs", true, ""},
		{"no state, and another name", nil, named("logs"), "payroll", false, "rfsd redrive --index-allowlist payroll"},
		{"the target of an entry in a file of this operator", ledger, resend.Targets{Proven: file}, "payroll", true, ""},
		{"the index of a failure in a file of this operator", ledger, resend.Targets{Proven: file}, "routed", true, ""},
		{"another index, with a file of this operator", ledger, resend.Targets{Proven: file}, "others", false, ""},
		{"rfsd's own", ledger, system(named("*")), ".rfs_control_x", false, ""},
		{"rfsd's own items, of which documents failed", ledger, system(resend.Targets{}), ".rfs_items-work", false, ""},
		{"of the system", ledger, named("*"), ".kibana_1", false, "rfsd redrive --include-system --index-allowlist .kibana_1"},
		{"of the system, which is included", ledger, system(named("*")), ".kibana_1", true, ""},
		{"a backing index", ledger, named("*"), ".ds-logs-000001", true, ""},
		{"several indices", ledger, named("*"), "logs,payroll", false, ""},
		{"a pattern", ledger, named("*"), "lo*", false, ""},
		{"a path", ledger, named("*"), "logs/_doc/1", false, ""},
		{"no name", ledger, named("*"), "", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Ledger, c.o.Again = c.ledger, again
			why, err := c.o.MayNot(t.Context(), c.index)
			if err != nil || (why == "") != c.permit {
				t.Errorf("%q: %q, %v", c.index, why, err)
			}
			if c.command != "" && !strings.HasSuffix(why, ": "+c.command) {
				t.Errorf("%q names no command that sends them, want %q", why, c.command)
			}
		})
	}
	p := resend.Targets{Ledger: ledger, Again: again}
	if why, err := p.MayNot(t.Context(), "broken"); err == nil {
		t.Errorf("an index that cannot be read: %q", why)
	}
}
