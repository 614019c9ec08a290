package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// Level is the severity of a finding.
type Level string

// Levels of findings, from good to bad.
const (
	Good    Level = "ok"
	Skipped Level = "not checked"
	Warning Level = "warning"
	Bad     Level = "problem"
)

// Finding is the result of one check, with a remedy.
type Finding struct {
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Detail string `json:"detail,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Checked is a finding with its section.
type Checked struct {
	Section Section `json:"section"`
	Finding
}

// Needs describes what the migration needs on the target.
type Needs struct {
	Names     []string                  // of target indices
	Shards    int64                     // shards to be created, with replicas
	Bytes     int64                     // bytes of all shards, with replicas
	BulkBytes int64                     // largest request body
	Over      map[string][]MappingLimit // limits that the mappings of indices of the snapshot exceed
	Tolerance time.Duration             // allowed difference between the clocks; 0: any
	Session   string
	// Pipelines, Scripts and Policies are set when these are migrated, too, and Attach when policies are attached to indices.
	Pipelines, Scripts, Policies, Attach bool
	// Now returns the time of this machine.
	Now func() time.Time
	// Work is the cluster that keeps the state of the work; nil: the target, unless Keep is set.
	Work rest.API
	// Keep verifies that a bucket or a file can keep the state of the work. It returns the time there and its uncertainty; the zero time if it
	// is the time of this machine.
	Keep func(ctx context.Context) (now time.Time, unsure time.Duration, err error)

	version target.Version
}

// checks are the checks of each section, in order. Serverless collections are only checked for permissions, because they have no nodes.
// Checks of the work concern the cluster that keeps its state.
var checks = []struct {
	section          Section
	check            func(context.Context, rest.API, Needs) []Finding
	collection, work bool
}{
	{Access, permissions, true, false}, {Access, mayWrite, false, false}, {Access, mayKeep, false, true}, {Access, scripts, false, true},
	{Disks, room, false, false},
	{Limits, clock, false, true}, {Limits, health, false, false}, {Limits, heap, false, false}, {Limits, bodies, false, false},
	{Limits, autoCreate, false, false}, {Limits, fields, true, false},
}

// Check makes the checks of the sections in only. It makes every check, regardless of the results of the others.
func Check(ctx context.Context, c rest.API, v target.Version, n Needs, only Sections) []Checked {
	var all []Checked
	n.version = v
	add := func(section Section, found ...Finding) {
		for _, f := range found {
			all = append(all, Checked{section, f})
		}
	}
	if only.Has(Versions) {
		add(Versions, version(v))
	}
	for _, x := range checks {
		on, applies := c, x.collection || !v.Serverless()
		switch {
		case x.work && n.Keep != nil:
			applies = false
		case x.work && n.Work != nil:
			on, applies = n.Work, true
		}
		if only.Has(x.section) && ctx.Err() == nil && applies {
			add(x.section, x.check(ctx, on, n)...)
		}
	}
	if n.Keep != nil && (only.Has(Access) || only.Has(Limits)) {
		for _, x := range kept(ctx, n) {
			if only.Has(x.Section) {
				all = append(all, x)
			}
		}
	}
	return all
}

func version(v target.Version) Finding {
	switch {
	case v.Distribution != "opensearch":
		return Finding{"target version", Warning, v.Untested(), "migrate to a version that is tested, or try with a copy of a few indices first"}
	case v.Major < 1:
		return Finding{"target version", Bad, v.Number, "use OpenSearch 1 or later"}
	}
	return Finding{"target version", Good, v.Number, ""}
}

func remedyOf(err error) string {
	switch {
	case fault.HasStatus(err, http.StatusUnauthorized):
		return "check --target-username and the password's file"
	case fault.HasStatus(err, http.StatusForbidden):
		return "give the user the permission that the words name"
	case errors.Is(err, fault.ErrUnavailable) && !strings.Contains(err.Error(), "check --"):
		return "check --target-host, the network, and that a node answers there"
	}
	return ""
}

// probe is a request that a migration makes, in a form that fails without any effect if it is permitted.
type probe struct {
	what, method, path string
	query              url.Values
	body               string
	remedy             string // the missing permission
}

// nothing is a name that no index, template or pipeline has.
const nothing = "rfsd-doctor-and-nothing-is-called-so"

// noPolicy is an ISM policy that the plugin refuses for its index pattern, after the check of permissions. Where the plugin has no policy
// yet, it creates its empty index first, as it will for the policies of the migration.
const noPolicy = `{"policy":{"description":"","default_state":"none","states":[{"name":"none","actions":[],"transitions":[]}],"ism_template":[{"index_patterns":["#"],"priority":1}]}}`

// impossible is a body with which no index is created.
const impossible = `{"settings":{"index.number_of_shards":-1}}`

// probes returns the requests about an index that will be written, since permissions apply to names and patterns. Each fails whether or not
// the index exists. All other names in the requests start like the name of that index.
func probes(n Needs) []probe {
	index, nothing := nothing, nothing
	all := slices.Sorted(maps.Keys(distinct(n.Names)))
	if i := slices.IndexFunc(all, func(name string) bool { return !strings.HasPrefix(name, ".") }); i >= 0 {
		index, nothing = all[i], all[i][:min(len(all[i]), 150)]+"-"+nothing
	}
	path := "/" + url.PathEscape(index)
	noAlias := `{"actions":[{"remove":{"index":` + strconv.Quote(index) + `,"alias":` + strconv.Quote(nothing) + `}}]}`
	shown := url.Values{"filter_path": {"*.settings.index.number_of_shards"}}
	if n.version.Serverless() {
		return []probe{
			{"create indices", "PUT", path, nil, target.ImpossibleIndex, "aoss:CreateIndex on the indices, in the data access policy"},
			{"read settings and mappings", "GET", path, shown, "", "aoss:DescribeIndex on the indices, in the data access policy"},
			{"set aliases", "POST", "/_aliases", nil, noAlias, "aoss:CreateCollectionItems on the collection, in the data access policy"},
		}
	}
	calls := []probe{
		{"create indices", "PUT", path, nil, impossible, "indices:admin/create on the target indices"},
		{"read settings and mappings", "GET", path, shown, "", "indices:admin/get on the target indices"},
		{"change settings", "PUT", path + "/_settings", nil, `{"index.number_of_shards":-1}`, "indices:admin/settings/update on the target indices"},
		{"set aliases", "POST", "/_aliases", nil, noAlias, "indices:admin/aliases on the target indices"},
		{"create legacy templates", "PUT", "/_template/" + nothing, url.Values{"create": {"true"}}, `{"index_patterns":["` + nothing + `-*"],"settings":{"index.number_of_shards":-1}}`, "indices:admin/template/put"},
		{"create component templates", "PUT", "/_component_template/" + nothing, url.Values{"create": {"true"}}, `{"template":{"settings":{"index.number_of_shards":-1}}}`, "cluster:admin/component_template/put"},
		{"create index templates", "PUT", "/_index_template/" + nothing, url.Values{"create": {"true"}}, `{"index_patterns":["` + nothing + `-*"],"template":{"settings":{"index.number_of_shards":-1}}}`, "indices:admin/index_template/put"},
		{"read the nodes' clocks and disks", "GET", "/_nodes/_local/stats/process", url.Values{"filter_path": {"nodes.*.timestamp"}}, "", "cluster:monitor/nodes/stats"},
	}
	if n.Pipelines {
		calls = append(calls, probe{"create pipelines", "PUT", "/_ingest/pipeline/" + nothing, nil, `{"processors":[{"` + nothing + `":{}}]}`, "cluster:admin/ingest/pipeline/put"})
	}
	if n.Scripts {
		calls = append(calls, probe{"create scripts", "PUT", "/_scripts/" + nothing, nil, `{"script":{"lang":"` + nothing + `","source":"1"}}`, "cluster:admin/script/put"})
	}
	if n.Policies {
		calls = append(calls, probe{"create ISM policies", "PUT", "/_plugins/_ism/policies/" + nothing, nil, noPolicy, "cluster:admin/opendistro/ism/policy/write"})
	}
	if n.Attach {
		calls = append(calls, probe{"attach ISM policies", "POST", "/_plugins/_ism/add/" + nothing, nil, `{"policy_id":"` + nothing + `"}`, "cluster:admin/opendistro/ism/managedindex/add"})
	}
	return calls
}

// roles names a role with all permissions.
const roles = "deploy/opensearch/role.yml is a role with all permissions"

// explained returns the text of an error response and a remedy; "" for no remedy.
func explained(call string, status int, answer []byte) (words, remedy string) {
	kind, reason := fault.ErrorMessage(answer)
	text, remedy := fault.Explain(status, kind, reason)
	return fmt.Sprintf("%s: status %d: %.300s", call, status, text), remedy
}

// permissions sends the probes about the target.
func permissions(ctx context.Context, c rest.API, n Needs) []Finding {
	where := roles
	if n.version.Serverless() {
		where = "docs/SERVERLESS.md has a policy with all permissions"
	}
	return permitted(ctx, c, probes(n), where)
}

// mayKeep sends the probes about the state of the work.
func mayKeep(ctx context.Context, c rest.API, n Needs) []Finding {
	name := nothing
	if n.Session != "" {
		name = n.Session + "-doctor"
	}
	return permitted(ctx, c, []probe{
		{keepWork, "PUT", "/.rfs_control_" + name, nil, impossible, "all of indices:* on .migrations_working_state* and .rfs_*"},
		{"change the state of the work", "POST", "/.rfs_items_" + name + "/_update/1", url.Values{"require_alias": {"true"}}, `{"doc":{}}`, "indices:data/write/update on .rfs_*"},
	}, roles)
}

const keepWork = "keep the state of the work"

// kept reports whether a bucket or a file can keep the state of the work, and whether its clock agrees with this machine's.
func kept(ctx context.Context, n Needs) []Checked {
	before := n.Now()
	at, unsure, err := n.Keep(ctx)
	if err != nil {
		return []Checked{{Access, Finding{"may " + keepWork, Bad, fault.Text(err), ""}}}
	}
	all := []Checked{{Access, Finding{"may " + keepWork, Good, "", ""}}}
	if !at.IsZero() {
		half := n.Now().Sub(before) / 2
		all = append(all, Checked{Limits, n.agreed(before.Add(half), at, unsure+half)})
	}
	return all
}

// permitted sends probes. They have no effect, because none of them can succeed.
func permitted(ctx context.Context, c rest.API, probes []probe, where string) []Finding {
	var all []Finding
	for _, p := range probes {
		f := Finding{Check: "may " + p.what, Level: Good}
		status, answer, err := c.Do(ctx, p.method, p.path, p.query, []byte(p.body))
		words, remedy := explained(p.method+" "+p.path, status, answer)
		switch {
		case err != nil:
			f.Level, f.Detail, f.Remedy = Bad, fault.Text(err), remedyOf(err)
		case transient(status, answer):
			f.Level, f.Detail, f.Remedy = Warning, words, cmp.Or(remedy, "look at the target's health, then run this again")
		case status == http.StatusUnauthorized || status == http.StatusForbidden:
			f.Level, f.Detail, f.Remedy = Bad, words, "give the user "+p.remedy+" ("+where+")"
		case status == http.StatusBadRequest && strings.Contains(words, "no handler found"):
			f.Level, f.Detail, f.Remedy = Warning, "the target lacks the plugin for it: "+words, "install the plugin, or migrate without these objects (--include)"
		}
		all = append(all, f)
	}
	return all
}

// transient reports whether a response proves nothing about permissions because the target has a temporary problem.
func transient(status int, answer []byte) bool {
	return errors.Is(fault.CheckStatus("", status, answer), fault.ErrUnavailable)
}

// scripts reports whether leases use scripts or conditional writes.
func scripts(ctx context.Context, c rest.API, _ Needs) []Finding {
	status, answer, err := c.Do(ctx, http.MethodPost, "/_scripts/painless/_execute", nil, []byte(`{"script":{"source":"1"}}`))
	switch {
	case err != nil:
		return []Finding{{"scripts", Skipped, fault.Text(err), ""}}
	case status == http.StatusForbidden:
		return []Finding{{"scripts", Skipped, "the user may not run this probe; rfsd tries an update when it starts", ""}}
	case status >= 300 && strings.Contains(string(answer), "cannot execute"):
		return []Finding{{"scripts", Warning, "inline scripts are disabled: leases are kept by conditional writes, with one request more each", "nothing needs to be done"}}
	}
	return []Finding{{"scripts", Good, "", ""}}
}

func clock(ctx context.Context, c rest.API, n Needs) []Finding {
	before := n.Now()
	var stats struct {
		Nodes map[string]struct {
			Timestamp int64 `json:"timestamp"`
		} `json:"nodes"`
	}
	if f := ask(ctx, c, "clocks agree", "/_nodes/_local/stats/process", url.Values{"filter_path": {"nodes.*.timestamp"}}, &stats); f != nil {
		return []Finding{*f}
	}
	after := n.Now()
	for _, x := range stats.Nodes {
		half := after.Sub(before) / 2
		return []Finding{n.agreed(before.Add(half), time.UnixMilli(x.Timestamp), half)}
	}
	return []Finding{{"clocks agree", Skipped, "no node reported its time", ""}}
}

// agreed compares the time of this machine with the time where the state of the work is kept.
func (n Needs) agreed(here, there time.Time, unsure time.Duration) Finding {
	off, direction, store := here.Sub(there), "ahead of", "the target"
	if off < 0 {
		direction = "behind"
	}
	if n.Work != nil || n.Keep != nil {
		store = "the coordination store"
	}
	f := Finding{"clocks agree", Good, fmt.Sprintf("this machine is %v %s %s (±%v)", off.Abs().Round(time.Millisecond), direction, store, unsure.Round(time.Millisecond)), ""}
	if n.Tolerance > 0 && off.Abs() > n.Tolerance+unsure {
		f.Level, f.Remedy = Bad, fmt.Sprintf("set the clocks (NTP): leases are refused beyond --clock-skew-tolerance %v", n.Tolerance)
	}
	return f
}

// ask decodes a response into out. If the request fails, it returns a Finding with the reason.
func ask(ctx context.Context, c rest.API, check, path string, q url.Values, out any) *Finding {
	if err := rest.Get(ctx, c, path, q, out); err != nil {
		return &Finding{check, Skipped, fault.Text(err), remedyOf(err)}
	}
	return nil
}
