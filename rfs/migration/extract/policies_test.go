package extract

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// quartz returns the last five fields of the expression of Elasticsearch that means the same as one of Unix, as far as cronOf writes it.
func quartz(unix string) string {
	parts := strings.Fields(unix)
	if parts[2] == "*" {
		parts[2] = "?"
	} else {
		parts[4] = "?"
	}
	var days []string
	for list := range strings.SplitSeq(parts[4], ",") {
		var ends []string
		for end := range strings.SplitSeq(list, "-") {
			if n, err := strconv.Atoi(end); err == nil {
				end = strconv.Itoa(n + 1)
			}
			ends = append(ends, end)
		}
		days = append(days, strings.Join(ends, "-"))
	}
	parts[4] = strings.Join(days, ",")
	return strings.Join(parts, " ")
}

// written returns the files that x has written, on one line each, and the requests that apply them.
func written(t *testing.T, x *extractor) (content, requests map[string]string) {
	t.Helper()
	content, requests = map[string]string{}, map[string]string{}
	for name, d := range x.drafts {
		if err := d.Commit(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(x.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var line bytes.Buffer
		if err := json.Compact(&line, b); err != nil {
			t.Fatal(err)
		}
		content[name] = line.String()
	}
	for _, f := range x.result().Files {
		requests[f.Name] = f.Apply
	}
	return content, requests
}

// state returns the metadata of a policy as the source of Elasticsearch 7.17 and 8.19 writes it to the state of a cluster.
func state(id, policy string) string {
	return `{"policies":{"` + id + `":{"policy":` + policy + `,"headers":{"_xpack_security_authentication":"secret=="},"version":1,"modified_date_millis":1732700000000,
"modified_date":"2024-11-27T09:33:20.000Z","last_success":{"snapshot_name":"nightly-2024.11.27-x","time":1732700000000},"invocations_since_last_success":0}},
"operation_mode":"RUNNING","stats":{"retention_runs":3}}`
}

const nightly = `{"name":"<nightly-snap-{now/d}>","schedule":"0 30 1 * * ?","repository":"backups","config":{"indices":["logs-*","other"],"ignore_unavailable":false,"include_global_state":true},"retention":{"expire_after":"30d","min_count":5,"max_count":50}}`

// TestAddLifecycles_Converts: what a policy means stays, or is listed.
func TestAddLifecycles_Converts(t *testing.T) {
	const (
		creation = `"creation":{"schedule":{"cron":{"expression":"30 1 * * *","timezone":"UTC"}}}`
		deletion = `"deletion":{"schedule":{"cron":{"expression":"30 1 * * *","timezone":"UTC"}},"condition":`
		tail     = `"snapshot_config":{"repository":"r"}}`
	)
	simple := func(name, retention string) string {
		return `{"name":"` + name + `","schedule":"0 30 1 * * ?","repository":"r"` + retention + `}`
	}
	for _, c := range []struct {
		name, id, policy string
		more             map[string]string // sections
		file, want       string            // without the description
		listed           []string
	}{
		{"the example of the documentation", "nightly", nightly, nil, "snapshot-policy-nightly.json",
			`"enabled":true,` + creation + `,` + deletion + `{"max_age":"30d","min_count":5,"max_count":50}},"snapshot_config":{"date_format":"yyyy.MM.dd","ignore_unavailable":false,"include_global_state":true,"indices":"old-*,other","repository":"backups"}}`,
			[]string{"named nightly-DATE-TEXT, not <nightly-snap-{now/d}>"}},
		{"no retention, no date", "p", simple("fixed", ""), nil, "snapshot-policy-p.json", `"enabled":true,` + creation + `,` + tail, []string{"not fixed"}},
		{"a date in a time zone", "p", simple("<s-{now/H{yyyy-MM-dd-HH|+02:00}}>", ""), nil, "snapshot-policy-p.json",
			`"enabled":true,` + creation + `,"snapshot_config":{"date_format":"yyyy-MM-dd-HH","date_format_timezone":"+02:00","repository":"r"}}`, []string{"not <s-"}},
		{"an age alone", "p", simple("s", `,"retention":{"expire_after":"7d"}`), nil, "snapshot-policy-p.json",
			`"enabled":true,` + creation + `,` + deletion + `{"max_age":"7d","min_count":1}},` + tail, []string{"at least 1", "not s"}},
		{"as many at least as at most", "p", simple("s", `,"retention":{"min_count":3,"max_count":3}`), nil, "snapshot-policy-p.json",
			`"enabled":true,` + creation + `,` + deletion + `{"min_count":3,"max_count":4}},` + tail, []string{"max_count 3 becomes 4", "not s"}},
		{"a minimum alone", "p", simple("s", `,"retention":{"min_count":3}`), nil, "snapshot-policy-p.json", `"enabled":true,` + creation + `,` + tail, []string{"not s", "nothing expires"}},
		{"another time of deletions", "p", simple("s", `,"retention":{"expire_after":"7d","min_count":2}`), map[string]string{"settings": `{"slm":{"retention_schedule":"0 0 4 ? * SUN"}}`}, "snapshot-policy-p.json",
			`"enabled":true,` + creation + `,` + strings.Replace(deletion, "30 1 * * *", "0 4 * * 0", 1) + `{"max_age":"7d","min_count":2}},` + tail, []string{"not s"}},
		{"a time of deletions without an equal", "p", simple("s", `,"retention":{"expire_after":"7d","min_count":2}`), map[string]string{"settings": `{"slm.retention_schedule":"0 0 4 L * ?"}`}, "snapshot-policy-p.json",
			`"enabled":true,` + creation + `,` + deletion + `{"max_age":"7d","min_count":2}},` + tail, []string{"not s", "slm.retention_schedule"}},
		{"options that OpenSearch does not have", "p", `{"name":"s","schedule":"0 30 1 * * ?","repository":"r","config":{"feature_states":["kibana"],"partial":true,"metadata":{"by":"ops"},"indices":"-logs-1,logs-*"}}`, nil, "snapshot-policy-p.json",
			`"enabled":true,` + creation + `,"snapshot_config":{"indices":"-old-1,old-*","metadata":{"by":"ops"},"partial":true,"repository":"r"}}`, []string{"feature_states", "not s"}},
		{"SLM does not run since 8.7", "p", simple("s", ""), map[string]string{"lifecycle_operation": `{"ilm_operation_mode":"RUNNING","slm_operation_mode":"STOPPED"}`}, "snapshot-policy-p.json",
			`"enabled":false,` + creation + `,` + tail, []string{"disabled", "not s"}},
		{"capitals", "Daily.Ops", simple("s", ""), nil, "snapshot-policy-daily.ops.json", `"enabled":true,` + creation + `,` + tail, []string{"becomes daily.ops", "not s"}},
		{"a schedule without an equal", "p", `{"name":"s","schedule":"0 0 1 L * ?","repository":"r"}`, nil, "", "", []string{"left out"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := writing(t, false)
			sections := map[string]json.RawMessage{"snapshot_lifecycle": json.RawMessage(state(c.id, c.policy))}
			for k, v := range c.more {
				sections[k] = json.RawMessage(v)
			}
			if err := x.addLifecycles(sections); err != nil {
				t.Fatal(err)
			}
			content, requests := written(t, x)
			want := map[string]string{}
			if c.file != "" {
				want[c.file] = `{"description":"converted from the SLM policy ` + c.id + `",` + c.want
			}
			if !maps.Equal(content, want) {
				t.Errorf("%s\nwant %s", content, want)
			}
			if c.file != "" && requests[c.file] != "POST _plugins/_sm/policies/"+strings.ToLower(c.id) {
				t.Errorf("apply with %q", requests[c.file])
			}
			left := x.result().Left
			if len(left) != len(c.listed) {
				t.Errorf("listed %+v", left)
			}
			for _, want := range c.listed {
				if !slices.ContainsFunc(left, func(l Left) bool { return strings.Contains(l.Reason, want) && l.What == "snapshot policy "+c.id }) {
					t.Errorf("listed %+v, want %q", left, want)
				}
			}
		})
	}
}

// TestAddLifecycles_SameFile: the second of two policies whose files have one name is listed.
func TestAddLifecycles_SameFile(t *testing.T) {
	x := writing(t, false)
	p := `{"policy":` + nightly + `}`
	if err := x.addLifecycles(map[string]json.RawMessage{"snapshot_lifecycle": json.RawMessage(`{"policies":{"A":` + p + `,"a":` + p + `}}`)}); err != nil {
		t.Fatal(err)
	}
	content, _ := written(t, x)
	if len(content) != 1 || !slices.ContainsFunc(x.result().Left, func(l Left) bool { return l.What == "snapshot policy a" && strings.HasPrefix(l.Reason, "left out") }) {
		t.Errorf("%s, %+v", content, x.result().Left)
	}
}

// TestAddLifecycles_Damage: the state of a cluster is input.
func TestAddLifecycles_Damage(t *testing.T) {
	for _, sections := range []map[string]json.RawMessage{
		{"snapshot_lifecycle": json.RawMessage(`[]`)},
		{"snapshot_lifecycle": json.RawMessage(`{"policies":{"p":{}}}`)},
		{"snapshot_lifecycle": json.RawMessage(`{"policies":{"p":{"policy":{"schedule":1}}}}`)},
		{"snapshot_lifecycle": json.RawMessage(`{"policies":{"p":{"policy":{"schedule":"0 0 1 * * ?","config":1}}}}`)},
		{"snapshot_lifecycle": json.RawMessage(state("p", nightly)), "settings": json.RawMessage(`1`)},
		{"snapshot_lifecycle": json.RawMessage(state("p", nightly)), "lifecycle_operation": json.RawMessage(`1`)},
	} {
		if err := writing(t, false).addLifecycles(sections); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", sections, err)
		}
	}
}

// TestAddManagement: a document of the form that the plugin of OpenSearch 2.19.4 writes becomes the request that creates the policy.
func TestAddManagement(t *testing.T) {
	const stored = `{"sm_policy":{"name":"daily","description":"d","schema_version":21,"creation":{"schedule":{"cron":{"expression":"0 8 * * *","timezone":"UTC"}},"time_limit":"1h"},
"deletion":{"schedule":{"cron":{"expression":"0 1 * * *","timezone":"America/Los_Angeles"}},"condition":{"max_age":"7d","min_count":7,"max_count":21},"time_limit":"1h"},
"snapshot_config":{"indices":"logs-*","repository":"s3-repo","ignore_unavailable":"true"},"schedule":{"interval":{"start_time":1656425122909,"period":1,"unit":"Minutes"}},
"enabled":true,"last_updated_time":1656425122909,"enabled_time":1656425122909,"user":{"name":"admin"}}}`
	for _, c := range []struct {
		name, source, want string
		listed             int
	}{
		{"whole", stored, `{"creation":{"schedule":{"cron":{"expression":"0 8 * * *","timezone":"UTC"}},"time_limit":"1h"},"deletion":{"condition":{"max_age":"7d","max_count":21,"min_count":7},"schedule":{"cron":{"expression":"0 1 * * *","timezone":"America/Los_Angeles"}},"time_limit":"1h"},"description":"d","enabled":true,"snapshot_config":{"ignore_unavailable":"true","indices":"old-*","repository":"s3-repo"}}`, 0},
		{"3.3: only deletes, by a pattern, and notifies", `{"sm_policy":{"deletion":{"condition":{"max_count":2},"snapshot_pattern":"x-*"},"snapshot_config":{"repository":"r"},"notification":{"channel":{"id":"c"}}}}`,
			`{"deletion":{"condition":{"max_count":2},"snapshot_pattern":"x-*"},"notification":{"channel":{"id":"c"}},"snapshot_config":{"repository":"r"}}`, 3},
		{"the state of a policy", `{"sm_metadata":{}}`, "", 0},
		{"an ISM policy", `{"policy":{}}`, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := writing(t, false)
			if err := x.addManagement(&doc.Document{ID: []byte("daily-sm-policy"), Source: []byte(c.source)}); err != nil {
				t.Fatal(err)
			}
			content, requests := written(t, x)
			if content["snapshot-policy-daily.json"] != c.want || len(x.left) != c.listed {
				t.Errorf("%s, left %v", content, x.left)
			}
			if c.want != "" && requests["snapshot-policy-daily.json"] != "POST _plugins/_sm/policies/daily" {
				t.Errorf("%s", requests)
			}
		})
	}
	for _, source := range []string{``, `1`, `{"sm_policy":1}`} {
		if err := writing(t, false).addManagement(&doc.Document{Source: []byte(source)}); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// FuzzAddLifecycles: whatever the state of a cluster holds, there is an error of damage or files of valid JSON.
func FuzzAddLifecycles(f *testing.F) {
	f.Add(state("nightly", nightly), `{"slm":{"retention_schedule":"0 0 4 ? * SUN"}}`, `{"sm_policy":{"snapshot_config":{"indices":["a",1]}}}`)
	f.Add(`{"policies":{"A#":{"policy":{"name":"<{","schedule":"30m","config":{"indices":[null,"-"]},"retention":{"max_count":-1}}}}}`, `{}`, `{"sm_policy":{"deletion":[]}}`)
	f.Fuzz(func(t *testing.T, lifecycle, settings, stored string) {
		x := writing(t, false)
		err := x.addLifecycles(map[string]json.RawMessage{"snapshot_lifecycle": json.RawMessage(lifecycle), "settings": json.RawMessage(settings)})
		if err == nil {
			err = x.addManagement(&doc.Document{ID: []byte("p"), Source: []byte(stored)})
		}
		if err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatal(err)
		}
		written(t, x)
	})
}
