package dashboards_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/dashboardstest"
)

// TestImporter_TenantsOfTheSecurityPlugin asks the security plugin of a real OpenSearch for the tenants, as OpenSearch Dashboards does for
// its route authinfo, and looks up the index that the plugin makes for a tenant.
func TestImporter_TenantsOfTheSecurityPlugin(t *testing.T) {
	if os.Getenv("RFSD_E2E") == "" {
		t.Skip("boots a server: RFSD_E2E is not set")
	}
	node := cluster.OpenSearch(t, "2.19.4", cluster.Secured())
	for _, name := range []string{"Ops Team", "dev"} {
		if err := node.JSON(t.Context(), http.MethodPut, "/_plugins/_security/api/tenants/"+url.PathEscape(name), map[string]string{"description": "d"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	client, err := node.Client()
	if err != nil {
		t.Fatal(err)
	}
	// send sends a request with the header of a tenant, as OpenSearch Dashboards does.
	send := func(method, path, tenant, body string) []byte {
		req, err := http.NewRequestWithContext(t.Context(), method, node.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("securitytenant", tenant)
		resp, err := client.HTTP.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s %s: status %d, %v: %s", method, path, resp.StatusCode, err, b)
		}
		return b
	}
	var account struct {
		User    string          `json:"user_name"`
		Tenants map[string]bool `json:"tenants"`
	}
	answer := send(http.MethodGet, "/_plugins/_security/authinfo", "", "")
	if err := json.Unmarshal(answer, &account); err != nil || !account.Tenants["Ops Team"] {
		t.Fatalf("%v: %s", err, answer)
	}
	send(http.MethodPut, "/.kibana/_doc/index-pattern:x?refresh=true", "Ops Team", `{"type":"index-pattern"}`)
	made := string(send(http.MethodGet, "/_cat/aliases/.kibana*?h=alias", "", ""))
	if !strings.Contains(made, "_opsteam\n") {
		t.Errorf("the plugin makes the aliases %s", made)
	}
	for _, c := range []struct {
		name, from, used, skips string
		forwards                bool
	}{
		{"the global tenant", "", "global", "", false},
		{"multitenancy is disabled in OpenSearch Dashboards", "", "", "", true},
		{"by its exact name", "dev", "dev", "", false},
		{"by letters and digits", "opsteam", "Ops Team", "", false},
		{"the user's own", account.User, account.User, "", false},
		{"no such tenant", "other", "", "has no tenant other", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &dashboardstest.Server{Tenants: account.Tenants, Forwards: c.forwards}
			s.Before = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/authinfo") {
					return false
				}
				_, _ = w.Write(send(http.MethodGet, "/_plugins/_security/authinfo", s.Tenant(r.Header.Get("securitytenant")), ""))
				return true
			}
			s.Start(t)
			f := file(t, object("index-pattern", "p", isPattern))
			f.Tenant = c.from
			r, err := importer(s.URL).Import(t.Context(), f)
			if err != nil || r.Tenant != c.used || !strings.Contains(r.Skipped, c.skips) || (r.Skipped == "") != (c.skips == "") {
				t.Fatalf("%+v, %v", r, err)
			}
			if want := []string{"index-pattern:p"}; c.skips == "" && !slices.Equal(s.Objects(strings.TrimPrefix(c.used, "global")), want) {
				t.Errorf("tenant %q has %q", c.used, s.Objects(c.used))
			}
		})
	}
}
