package preflight

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
)

// fakeCluster answers by path.
type fakeCluster struct {
	answers map[string]string
	status  map[string]int
}

func (f fakeCluster) Do(_ context.Context, method, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if s := f.status[method+" "+path]; s != 0 {
		return s, []byte(`{"error":{"type":"x","reason":"no permissions for [y]"}}`), nil
	}
	if a, ok := f.answers[path]; ok {
		return 200, []byte(a), nil
	}
	return 400, []byte(`{}`), nil
}

// examine makes all checks of a target.
func examine(t *testing.T, c rest.API, n Needs) (all []Finding) {
	t.Helper()
	for _, x := range Check(t.Context(), c, opensearch2, n, AllSections()) {
		all = append(all, x.Finding)
	}
	return all
}

func find(t *testing.T, all []Finding, check string) Finding {
	t.Helper()
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding about %q in %+v", check, all)
	return Finding{}
}

func TestEachFindingNamesItsRemedy(t *testing.T) {
	now := time.UnixMilli(1_000_000_000_000)
	c := fakeCluster{
		answers: map[string]string{
			"/_nodes/_local/stats/process": `{"nodes":{"a":{"timestamp":1000000060000}}}`,
			"/_cluster/health":             `{"status":"red","number_of_data_nodes":1,"active_shards":990,"unassigned_shards":5}`,
			"/_cluster/settings":           `{"persistent":{"cluster.blocks.read_only":"true"},"defaults":{"cluster.max_shards_per_node":"1000","cluster.routing.allocation.disk.watermark.high":"90%"}}`,
			"/_nodes/stats/fs":             `{"nodes":{"a":{"name":"n","roles":["data"],"fs":{"total":{"total_in_bytes":1000,"available_in_bytes":50}}}}}`,
			"/_nodes/stats/jvm":            `{"nodes":{"a":{"name":"n","jvm":{"mem":{"heap_used_percent":93}}}}}`,
			"/_nodes/http":                 `{"nodes":{"a":{"http":{"max_content_length_in_bytes":100}}}}`,
		},
		status: map[string]int{"PUT /good": 403, "POST /_aliases": 503},
	}
	all := examine(t, c, Needs{
		Names: []string{"good", "Bad", ".ok"}, Shards: 6, Bytes: 100, BulkBytes: 1000, Tolerance: 15 * time.Second,
		Over: map[string][]MappingLimit{"wide": {{"index.mapping.total_fields.limit", 1200, 1000}}}, Now: func() time.Time { return now },
	})
	for check, level := range map[string]Level{
		"may create indices": Bad, "may set aliases": Warning, "may change settings": Good, "clocks agree": Bad, "target is healthy": Bad,
		"target may be written": Bad, "shards per node": Bad, "disks": Bad, "room for the indices": Bad, "heap": Warning, "size of requests": Warning,
		"mapping of wide": Bad,
	} {
		f := find(t, all, check)
		if f.Level != level || level != Good && f.Remedy == "" {
			t.Errorf("%s: %+v", check, f)
		}
	}
}

// asked records the requests to a cluster.
type asked struct {
	rest.API
	calls *[]string
}

func (a asked) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	*a.calls = append(*a.calls, method+" "+path)
	return a.API.Do(ctx, method, path, query, body)
}

// TestCheck_StateElsewhere: permissions and the clock of what keeps the state of the work are checked there, and not on the target.
func TestCheck_StateElsewhere(t *testing.T) {
	now := time.UnixMilli(1_000_000_000_000)
	ahead := fakeCluster{answers: map[string]string{"/_nodes/_local/stats/process": `{"nodes":{"a":{"timestamp":1000000060000}}}`}}
	agrees := fakeCluster{answers: map[string]string{"/_nodes/_local/stats/process": `{"nodes":{"a":{"timestamp":1000000000000}}}`}}
	forbids := fakeCluster{answers: agrees.answers, status: map[string]int{"PUT /.rfs_control_s-doctor": 403}}
	keep := func(at time.Time, err error) func(context.Context) (time.Time, time.Duration, error) {
		return func(context.Context) (time.Time, time.Duration, error) { return at, time.Second, err }
	}
	const may, clocks = "may keep the state of the work", "clocks agree"
	for _, c := range []struct {
		name  string
		needs Needs
		want  map[string]Level
		says  string
	}{
		{"a cluster with this time", Needs{Work: agrees}, map[string]Level{may: Good, "may change the state of the work": Good, clocks: Good}, "0s ahead of the coordination store"},
		{"a cluster that forbids it", Needs{Work: forbids}, map[string]Level{may: Bad, clocks: Good}, "no permissions"},
		{"a cluster with another time", Needs{Work: ahead}, map[string]Level{may: Good, clocks: Bad}, "1m0s behind the coordination store"},
		{"a bucket with this time", Needs{Keep: keep(now.Add(time.Second), nil)}, map[string]Level{may: Good, clocks: Good}, "1s behind the coordination store"},
		{"a bucket with another time", Needs{Keep: keep(now.Add(-time.Minute), nil)}, map[string]Level{may: Good, clocks: Bad}, "1m0s ahead of the coordination store (±1s)"},
		{"a bucket that does not answer", Needs{Keep: keep(now, errors.New("no answer"))}, map[string]Level{may: Bad}, "no answer"},
		{"a file", Needs{Keep: keep(time.Time{}, nil)}, map[string]Level{may: Good}, ""},
	} {
		for _, v := range []target.Version{opensearch2, {Distribution: "opensearch", Number: "serverless", Major: 2, Collection: target.SearchCollection}} {
			t.Run(c.name+" beside "+v.Number, func(t *testing.T) {
				n := c.needs
				n.Names, n.Session, n.Tolerance, n.Now = []string{"logs"}, "s", 15*time.Second, func() time.Time { return now }
				var calls []string
				got, details := map[string]Level{}, ""
				for _, x := range Check(t.Context(), asked{ahead, &calls}, v, n, Sections{Access, Limits}) {
					if _, wanted := c.want[x.Check]; wanted || x.Check == may || x.Check == clocks {
						got[x.Check] = x.Level
						details += x.Detail + "\n"
					}
				}
				if !maps.Equal(got, c.want) || !strings.Contains(details, c.says) {
					t.Errorf("%v, want %v: %s", got, c.want, details)
				}
				for _, call := range calls {
					if strings.Contains(call, "/.rfs_") || strings.Contains(call, "painless") {
						t.Errorf("the target was asked %s", call)
					}
				}
			})
		}
	}
}

// TestCheck_PoliciesOfISM: a permitted user's policy is refused for its pattern; a missing privilege and a missing plugin are named. The
// plugin is not published as an artifact, so these are answers of OpenSearch 2.19 by its source.
func TestCheck_PoliciesOfISM(t *testing.T) {
	policy, add := "PUT /_plugins/_ism/policies/logs-"+nothing, "POST /_plugins/_ism/add/logs-"+nothing
	for _, c := range []struct {
		name, call, check string
		answer            answer
		level             Level
		says              string
	}{
		{"a policy may be created", policy, "may create ISM policies", answer{400, `{"error":{"type":"invalid_index_template_exception","reason":"index_pattern [#] must not contain a '#'"}}`}, Good, ""},
		{"a policy may not be created", policy, "may create ISM policies", answer{403, `{"error":{"type":"security_exception","reason":"no permissions for [cluster:admin/opendistro/ism/policy/write]"}}`}, Bad,
			"give the user cluster:admin/opendistro/ism/policy/write (deploy/opensearch/role.yml"},
		{"the plugin is missing", policy, "may create ISM policies", answer{400, `{"error":"no handler found for uri [/_plugins/_ism/policies/x] and method [PUT]"}`}, Warning, "install the plugin, or migrate without these objects (--include)"},
		{"a policy may be attached", add, "may attach ISM policies", answer{404, `{"error":{"type":"index_not_found_exception","reason":"no such index [x]"}}`}, Good, ""},
		{"a policy may not be attached", add, "may attach ISM policies", answer{403, `{"error":{"type":"security_exception","reason":"no permissions for [cluster:admin/opendistro/ism/managedindex/add]"}}`}, Bad,
			"give the user cluster:admin/opendistro/ism/managedindex/add (deploy/opensearch/role.yml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := answering{c.call: c.answer}
			f := find(t, examine(t, on, Needs{Names: []string{"logs"}, Now: time.Now, Policies: true, Attach: true}), c.check)
			if f.Level != c.level || !strings.Contains(f.Remedy, c.says) || (f.Detail == "") != (c.level == Good) {
				t.Errorf("%+v", f)
			}
		})
	}
	t.Run("only if they are migrated", func(t *testing.T) {
		for _, f := range examine(t, answering{policy: {403, "{}"}, add: {403, "{}"}}, Needs{Names: []string{"logs"}, Now: time.Now}) {
			if strings.Contains(f.Check, "ISM") {
				t.Errorf("%+v", f)
			}
		}
	})
}

// answer is a status with a body; answering answers some calls so, and all others with 400.
type answer struct {
	status int
	body   string
}

type answering map[string]answer

func (a answering) Do(_ context.Context, method, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if is, ok := a[method+" "+path]; ok {
		return is.status, []byte(is.body), nil
	}
	return 400, []byte(`{}`), nil
}

// TestRoomIsStatedInTheUnitsOfTheEvaluation: the same bytes are the same text in both programs.
func TestRoomIsStatedInTheUnitsOfTheEvaluation(t *testing.T) {
	c := fakeCluster{answers: map[string]string{
		"/_cluster/settings": `{"defaults":{"cluster.routing.allocation.disk.watermark.high":"90%"}}`,
		"/_nodes/stats/fs":   `{"nodes":{"a":{"name":"n","roles":["data"],"fs":{"total":{"total_in_bytes":9000000000,"available_in_bytes":3221225472}}}}}`,
	}}
	f := find(t, examine(t, c, Needs{Bytes: 157_400_000, Now: time.Now}), "room for the indices")
	if want := "about 150.1 MiB needed with replicas, 3.0 GiB free"; f.Detail != want {
		t.Errorf("%q, want %q", f.Detail, want)
	}
}

func TestTargetsThatAreNotTestedAreAWarning(t *testing.T) {
	for _, c := range []struct {
		is    target.Version
		level Level
		words []string
	}{
		{target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2}, Good, []string{"2.19.4"}},
		{target.Version{Distribution: "elasticsearch", Number: "7.17.9", Major: 7}, Warning, []string{"elasticsearch 7.17.9", "not tested", "2.19.4 and 3.8.0"}},
		{target.Version{Distribution: "opensearch", Number: "0.9.0"}, Bad, []string{"0.9.0"}},
	} {
		f := version(c.is)
		if f.Level != c.level || (f.Remedy == "") != (c.level == Good) {
			t.Errorf("%+v: %+v", c.is, f)
		}
		for _, w := range c.words {
			if !strings.Contains(f.Detail, w) {
				t.Errorf("%q is not in %+v", w, f)
			}
		}
	}
}

// TestARealTargetIsExaminedAndLeftAsItWas runs every probe against a real target.
func TestARealTargetIsExaminedAndLeftAsItWas(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	for _, version := range draw.Of(t, 1, []string{"2.19.4", "3.8.0"}) {
		t.Run(version, func(t *testing.T) {
			node := cluster.OpenSearch(t, version)
			client, err := target.New(t.Context(), target.Config{URL: node.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			before := everything(t, client)
			for _, f := range examine(t, client, Needs{Names: []string{"rfsd-doctor"}, Tolerance: 15 * time.Second, Now: time.Now, BulkBytes: 1 << 20, Pipelines: true, Scripts: true}) {
				if f.Level != Good {
					t.Errorf("%+v", f)
				}
			}
			if after := everything(t, client); after != before {
				t.Errorf("before\n%s\nafter\n%s", before, after)
			}
		})
	}
}

// everything lists names of what a probe could have left behind.
func everything(t *testing.T, c *target.Client) string {
	t.Helper()
	var all strings.Builder
	for _, what := range []string{"index", "alias"} {
		path := map[string]string{"index": "/_cat/indices", "alias": "/_cat/aliases"}[what]
		status, b, err := c.Do(t.Context(), http.MethodGet, path, url.Values{"h": {what}, "s": {what}, "expand_wildcards": {"all"}}, nil)
		if err != nil || status != 200 {
			t.Fatal(status, err)
		}
		for line := range strings.Lines(string(b)) { // the nodes may be other tests' as well
			if strings.Contains(line, "rfsd-doctor") {
				all.WriteString(path + " " + line)
			}
		}
	}
	for _, path := range []string{"/_template/rfsd-doctor-" + nothing, "/_component_template/rfsd-doctor-" + nothing, "/_index_template/rfsd-doctor-" + nothing, "/_ingest/pipeline/rfsd-doctor-" + nothing, "/_scripts/rfsd-doctor-" + nothing} {
		if status, b, err := c.Do(t.Context(), http.MethodGet, path, nil, nil); err != nil || status != 404 {
			t.Errorf("GET %s: %d %s %v", path, status, b, err)
		}
	}
	return all.String()
}

// TestAUserWithoutPermissionsIsToldEachOfThem examines a secured target as a user who may only read.
func TestAUserWithoutPermissionsIsToldEachOfThem(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	node := cluster.OpenSearch(t, "2.19.4", cluster.Secured())
	admin, err := target.New(t.Context(), target.Config{URL: node.URL, Username: node.Username, Password: node.Password, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	const secret = "Correct-Horse-7-battery"
	status, b, err := admin.Do(t.Context(), http.MethodPut, "/_plugins/_security/api/internalusers/onlooker", nil, []byte(`{"password":"`+secret+`"}`))
	if err != nil || status >= 300 {
		t.Fatal(status, string(b), err)
	}
	client, err := target.New(t.Context(), target.Config{URL: node.URL, Username: "onlooker", Password: secret, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	needs := Needs{Now: time.Now, Pipelines: true, Scripts: true}
	all := examine(t, client, needs)
	for _, p := range probes(needs) {
		if f := find(t, all, "may "+p.what); f.Level != Bad || f.Remedy == "" || strings.Contains(f.Detail, secret) {
			t.Errorf("%+v", f)
		}
	}
	t.Run("only for throw-away indices", func(t *testing.T) { // as the second half of the role of deploy/opensearch grants
		for _, put := range [][2]string{
			{"roles/doctor", `{"index_permissions":[{"index_patterns":["*-rfsd-doctor-*"],"allowed_actions":["indices:*"]}]}`},
			{"rolesmapping/doctor", `{"users":["onlooker"]}`},
		} {
			if status, b, err := admin.Do(t.Context(), http.MethodPut, "/_plugins/_security/api/"+put[0], nil, []byte(put[1])); err != nil || status >= 300 {
				t.Fatal(status, string(b), err)
			}
		}
		all := examine(t, client, Needs{Names: []string{"orders"}, Now: time.Now})
		for _, what := range []string{"create indices", "read settings and mappings", "change settings", "set aliases", "index documents"} {
			if f := find(t, all, "may "+what); f.Level != Bad {
				t.Errorf("%+v", f)
			}
		}
	})
}
