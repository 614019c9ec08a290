package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/testing/cluster"
)

// guarded is a target with indices, and with permissions by the beginnings of names.
type guarded struct {
	indices              map[string]bool
	aliases              map[string]string // alias: index
	writes, makes, drops []string
	writesOnly           string // part of each name that may be written
	exact                bool   // names of writes are whole
	noBulk               bool   // single documents may be indexed, bulk requests not
	hides                bool   // it shows no index
	blocked              string
	full                 bool // the disks are the reason why an index is blocked, and no index can be made
	keeps                bool // it does not remove what it has permitted to remove
	wrote                []string
	made                 []string
}

func (g *guarded) may(all []string, name string) bool {
	return slices.ContainsFunc(all, func(p string) bool { return strings.HasPrefix(name, p) })
}

const noPermissions = `{"error":{"type":"security_exception","reason":"no permissions"},"status":403}`

func (g *guarded) mayWrite(name string) bool {
	if g.exact {
		return slices.Contains(g.writes, name)
	}
	return g.may(g.writes, name) && strings.Contains(name, g.writesOnly)
}

func (g *guarded) Do(_ context.Context, method, path string, q url.Values, body []byte) (int, []byte, error) {
	name := strings.TrimPrefix(path, "/")
	switch {
	case path == "/_bulk":
		return g.bulk(string(body))
	case strings.HasPrefix(name, "_"):
		return 400, nil, nil
	case strings.Contains(name, "/_doc/"):
		if index, _, _ := strings.Cut(name, "/"); !g.mayWrite(index) {
			return 403, []byte(noPermissions), nil
		}
		if q.Get("require_alias") != "true" || q.Get("if_seq_no") == "" {
			g.wrote = append(g.wrote, name)
		}
		return 404, nil, nil
	case strings.Contains(name, "/"):
		return 400, nil, nil
	case method == http.MethodGet && g.hides:
		return 403, []byte(noPermissions), nil
	case method == http.MethodGet:
		found := map[string]any{}
		for _, n := range strings.Split(name, ",") {
			if x := g.aliases[n]; x != "" {
				found[x] = map[string]any{"aliases": map[string]any{n: map[string]any{}}}
			} else if g.indices[n] {
				found[n] = map[string]any{"aliases": map[string]any{}}
			}
		}
		b, err := json.Marshal(found)
		return 200, b, err
	case method == http.MethodPut && strings.Contains(string(body), "-1"):
		return 400, nil, nil
	case method == http.MethodPut && !g.may(g.makes, name), method == http.MethodDelete && !g.may(g.drops, name):
		return 403, []byte(noPermissions), nil
	case method == http.MethodPut && g.full:
		return 403, []byte(`{"error":{"type":"index_create_block_exception","reason":"blocked by: [FORBIDDEN/10/cluster create-index blocked (api)];"},"status":403}`), nil
	case method == http.MethodPut:
		g.indices[name] = true
		g.made = append(g.made, name)
		return 200, nil, nil
	case method == http.MethodDelete && !g.indices[name]:
		return 404, nil, nil
	case method == http.MethodDelete && g.keeps:
		return 403, []byte(noPermissions), nil
	case method == http.MethodDelete:
		delete(g.indices, name)
		return 200, nil, nil
	}
	return 400, nil, nil
}

func (g *guarded) bulk(body string) (int, []byte, error) {
	var items []string
	for line := range strings.Lines(body) {
		var action struct {
			Index struct {
				Name  string `json:"_index"`
				SeqNo int64  `json:"if_seq_no"`
			}
		}
		if err := json.Unmarshal([]byte(line), &action); err != nil {
			return 400, nil, err
		}
		name := action.Index.Name
		if name == "" {
			continue
		}
		reason := "r"
		if g.full {
			reason = "index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];"
		}
		item := func(status int, typ string) {
			items = append(items, fmt.Sprintf(`{"index":{"_index":%q,"status":%d,"error":{"type":%q,"reason":%q}}}`, name, status, typ, reason))
		}
		real := name
		if g.aliases[name] != "" {
			real = g.aliases[name]
		}
		switch {
		case g.noBulk, !g.mayWrite(real):
			item(403, "security_exception")
		case real == g.blocked:
			item(403, "cluster_block_exception")
		case action.Index.SeqNo == 0 || !g.indices[real]:
			g.wrote = append(g.wrote, name)
			item(201, "")
		default:
			item(409, "version_conflict_engine_exception")
		}
	}
	return 200, []byte(`{"items":[` + strings.Join(items, ",") + `]}`), nil
}

func TestThePermissionToWriteIsProvedUnderTheRealNames(t *testing.T) {
	many := []string{}
	for n := range 20 {
		many = append(many, fmt.Sprintf("logs-%02d", n))
	}
	for _, c := range []struct {
		name  string
		names []string
		g     guarded
		want  map[Level]string // part of the detail
		not   Level
		made  int
	}{
		{"an existing index and an alias", []string{"orders", "catalog"}, guarded{indices: map[string]bool{"orders": true, "f-1": true}, aliases: map[string]string{"catalog": "f-1"}, writes: []string{""}},
			map[Level]string{Good: "proved in catalog, orders"}, Bad, 0},
		{"an existing index that may only be read", []string{"orders"}, guarded{indices: map[string]bool{"orders": true}}, map[Level]string{Bad: "orders: status 403: r"}, Good, 0},
		{"one of two", []string{"a", "b"}, guarded{indices: map[string]bool{"a": true, "b": true}, writes: []string{"a"}}, map[Level]string{Good: "proved in a", Bad: "b: status 403"}, Skipped, 0},
		{"full disks are not a lack of permission", []string{"a"}, guarded{indices: map[string]bool{"a": true}, writes: []string{""}, blocked: "a", full: true}, map[Level]string{Bad: "free space there"}, Good, 0},
		{"full disks permit no throw-away index", []string{"a"}, guarded{writes: []string{""}, makes: []string{""}, drops: []string{""}, full: true}, map[Level]string{Bad: "free space there"}, Good, 0},
		{"a blocked index is not a lack of permission", []string{"a"}, guarded{indices: map[string]bool{"a": true}, writes: []string{""}, blocked: "a"}, map[Level]string{Bad: "remove the block of the index"}, Good, 0},
		{"names that are to come, in one throw-away index", many, guarded{writes: []string{"logs-"}, makes: []string{"logs-"}, drops: []string{"logs-"}},
			map[Level]string{Good: "throw-away index for logs-00, logs-01, logs-02, logs-03, logs-04 and 15 more"}, Bad, 1},
		{"names that may be created and not written", many, guarded{makes: []string{"logs-"}, drops: []string{"logs-"}}, map[Level]string{Bad: "logs-00"}, Good, 0},
		{"throw-away indices that may be written, and no others", many, guarded{writes: []string{""}, writesOnly: "-rfsd-doctor-", makes: []string{""}, drops: []string{""}},
			map[Level]string{Bad: "PUT /logs-00/_doc/"}, Good, 0},
		{"names that may be written, but not what starts like them", []string{"a"}, guarded{writes: []string{"a"}, exact: true, makes: []string{""}, drops: []string{""}},
			map[Level]string{Skipped: "bulk requests could not be tested"}, Bad, 1},
		{"names that are not shown, and not written", []string{"a"}, guarded{hides: true}, map[Level]string{Bad: "PUT /a/_doc/"}, Good, 0},
		{"names that are not shown", []string{"a"}, guarded{hides: true, writes: []string{""}}, map[Level]string{Skipped: "GET /a"}, Good, 0},
		{"single documents only", []string{"a"}, guarded{writes: []string{""}, noBulk: true, makes: []string{""}, drops: []string{""}}, map[Level]string{Bad: "a: status 403"}, Good, 1},
		{"a user who may not remove gets no throw-away index", many, guarded{writes: []string{""}, makes: []string{""}}, map[Level]string{Skipped: "could not be removed again"}, Good, 0},
		{"an index that cannot be removed is named", []string{"x"}, guarded{writes: []string{""}, makes: []string{""}, drops: []string{""}, keeps: true}, map[Level]string{Warning: "could not be removed", Good: "x"}, Bad, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := c.g
			if g.indices == nil {
				g.indices = map[string]bool{}
			}
			before := maps.Clone(g.indices)
			found := examine(t, &g, Needs{Names: c.names, Now: time.Now})
			var all []Finding
			for _, f := range found {
				if f.Check == writeCheck || f.Check == "throw-away index" {
					all = append(all, f)
				}
			}
			for level, part := range c.want {
				if !slices.ContainsFunc(all, func(f Finding) bool {
					return f.Level == level && strings.Contains(f.Detail+f.Remedy, part) && (level == Good || f.Remedy != "")
				}) {
					t.Errorf("no finding %q with %q in %+v", level, part, all)
				}
			}
			if slices.ContainsFunc(all, func(f Finding) bool { return f.Level == c.not }) {
				t.Errorf("a finding %q in %+v", c.not, all)
			}
			if len(g.wrote) > 0 || len(g.made) != c.made || !g.keeps && !maps.Equal(g.indices, before) {
				t.Errorf("wrote %q, made %q, indices %v", g.wrote, g.made, g.indices)
			}
		})
	}
}

// TestAUserWhoMayCreateAndReadOnly examines a secured target as a user whose requests to write were once taken for permitted.
func TestAUserWhoMayCreateAndReadOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	node := cluster.OpenSearch(t, "2.19.4", cluster.Secured())
	const secret = "Correct-Horse-7-battery"
	as := func(user string) *target.Client {
		c, err := target.New(t.Context(), target.Config{URL: node.URL, Username: user, Password: secret, Insecure: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	admin, err := target.New(t.Context(), target.Config{URL: node.URL, Username: node.Username, Password: node.Password, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	do := func(method, path, body string) {
		t.Helper()
		if status, b, err := admin.Do(t.Context(), method, path, nil, []byte(body)); err != nil || status >= 300 {
			t.Fatal(method, path, status, string(b), err)
		}
	}
	do("PUT", "/proved-there", `{"settings":{"index.number_of_replicas":0},"mappings":{"_routing":{"required":true},"dynamic":"strict"},"aliases":{"proved-alias":{}}}`)
	for user, actions := range map[string]string{
		"reader": `"read","create_index","indices:admin/delete","indices:admin/get","indices:admin/create"`,
		"writer": `"read","write","create_index","indices:admin/delete","indices:admin/get","indices:admin/create"`,
	} {
		do("PUT", "/_plugins/_security/api/internalusers/"+user, `{"password":"`+secret+`"}`)
		do("PUT", "/_plugins/_security/api/roles/"+user, `{"cluster_permissions":["cluster_monitor","cluster_composite_ops"],"index_permissions":[{"index_patterns":["proved-*"],"allowed_actions":[`+actions+`]}]}`)
		do("PUT", "/_plugins/_security/api/rolesmapping/"+user, `{"users":["`+user+`"]}`)
	}
	needs := Needs{Names: []string{"proved-there", "proved-alias", "proved-to-come"}, Now: time.Now}
	for user, want := range map[string]Level{"reader": Bad, "writer": Good} {
		t.Run(user, func(t *testing.T) {
			n := 0
			for _, f := range examine(t, as(user), needs) {
				if f.Check != writeCheck {
					continue
				}
				if n++; f.Level != want || strings.Contains(f.Detail, secret) {
					t.Errorf("%+v", f)
				}
				t.Log(f.Level, f.Detail)
			}
			if n == 0 {
				t.Error("no finding")
			}
		})
	}
	status, b, err := admin.Do(t.Context(), "GET", "/_cat/indices/proved-*", url.Values{"h": {"index,docs.count"}}, nil)
	if err != nil || status != 200 || strings.Join(strings.Fields(string(b)), " ") != "proved-there 0" {
		t.Errorf("left behind: %s", b)
	}
}
