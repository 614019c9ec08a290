package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
)

// hostileRecord is a document of the coordination store.
type hostileRecord struct {
	Index  string         `json:"_index"`
	ID     string         `json:"_id"`
	Source map[string]any `json:"_source"`
}

// stored reads every document of the coordination indices.
func stored(t *testing.T, n *cluster.Node) []hostileRecord {
	t.Helper()
	call(t, n, "POST", "/.rfs*,.migrations*/_refresh?allow_no_indices=true&expand_wildcards=all", nil)
	var page struct {
		Hits struct{ Hits []hostileRecord }
	}
	must(t, n.JSON(t.Context(), "POST", "/.rfs*,.migrations*/_search?size=5000&allow_no_indices=true&expand_wildcards=all", nil, &page))
	return page.Hits.Hits
}

// own are the indices of the session under attack: what becomes of these does not count.
var own = []string{"catalogue", "orders", "weblogs"}

// foreigners returns everything on the target that is not the session's: objects with their definitions, and documents with versions.
func foreigners(t *testing.T, n *cluster.Node) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(kind, name string, v any) {
		b, err := json.Marshal(v)
		must(t, err)
		all[kind+" "+name] = string(b)
	}
	mine := func(name string) bool {
		return slices.Contains(own, strings.TrimPrefix(name, "rfsd-trial-")) || strings.HasPrefix(name, ".rfs") || strings.HasPrefix(name, ".migrations") || strings.HasPrefix(name, "top_queries")
	}
	for _, path := range []string{"/*?expand_wildcards=all", "/_template", "/_ingest/pipeline", "/_cluster/settings?flat_settings=true", "/_cluster/state/metadata?filter_path=metadata.stored_scripts,metadata.repositories"} {
		for name, v := range call(t, n, "GET", path, nil) {
			if !mine(name) {
				add(path, name, v)
			}
		}
	}
	for _, path := range []string{"/_index_template", "/_component_template"} {
		add(path, "", call(t, n, "GET", path, nil))
	}
	call(t, n, "POST", "/_refresh", nil)
	var page struct {
		Hits struct {
			Hits []struct {
				Index  string          `json:"_index"`
				ID     string          `json:"_id"`
				Seq    int64           `json:"_seq_no"`
				Source json.RawMessage `json:"_source"`
			}
		}
	}
	must(t, n.JSON(t.Context(), "POST", "/*,-.rfs*,-.migrations*,-top_queries*,-catalogue*,-orders*,-weblogs*,-rfsd-trial-catalogue*,-rfsd-trial-orders*,-rfsd-trial-weblogs*/_search?size=1000&expand_wildcards=all&seq_no_primary_term=true", nil, &page))
	for _, h := range page.Hits.Hits {
		add("document", h.Index+"/"+h.ID, h)
	}
	return all
}

// formerMark is on what an earlier session of the name created: what the mark of a session is, and random text.
const formerMark = "GbXTAFGcQ9qGAuhGMWwm9A"

// bystanders puts objects of every kind on the target that no session has created, and returns the UUID of the index victim.
func bystanders(t *testing.T, n *cluster.Node) (uuid string) {
	t.Helper()
	for _, index := range []string{"victim", "payroll", "rfsd-trial-victim"} {
		call(t, n, "PUT", "/"+index, map[string]any{"aliases": map[string]any{index + "-read": map[string]any{}}, "settings": map[string]any{"index.refresh_interval": "7s", "index.number_of_replicas": 0}})
		for _, id := range []string{"1", "2"} {
			call(t, n, "PUT", "/"+index+"/_doc/"+id, map[string]any{"of": "others"})
		}
	}
	call(t, n, "PUT", "/former", map[string]any{"mappings": map[string]any{"_meta": map[string]any{"rfsd": map[string]any{"session": "sec", "kind": "index", "name": "former", "mark": formerMark}}}})
	call(t, n, "PUT", "/former/_doc/1", map[string]any{"of": "an earlier session"})
	for _, name := range []string{"victim", "payroll"} {
		call(t, n, "PUT", "/_template/"+name, map[string]any{"index_patterns": []string{name + "-t-*"}})
		call(t, n, "PUT", "/_component_template/"+name, map[string]any{"template": map[string]any{}})
		call(t, n, "PUT", "/_index_template/"+name, map[string]any{"index_patterns": []string{name + "-i-*"}})
		call(t, n, "PUT", "/_ingest/pipeline/"+name, map[string]any{"processors": []any{}})
		call(t, n, "PUT", "/_scripts/"+name, map[string]any{"script": map[string]any{"lang": "painless", "source": "1"}})
	}
	var info map[string]struct {
		Settings struct{ Index struct{ UUID string } }
	}
	must(t, n.JSON(t.Context(), "GET", "/victim", nil, &info))
	return info["victim"].Settings.Index.UUID
}

// rewrite returns a value with every string replaced by what change makes of it, also keys.
func rewrite(v any, change func(string) string) any {
	switch v := v.(type) {
	case string:
		return change(v)
	case []any:
		for i := range v {
			v[i] = rewrite(v[i], change)
		}
	case map[string]any:
		for _, key := range slices.Collect(maps.Keys(v)) {
			value := rewrite(v[key], change)
			delete(v, key)
			v[change(key)] = value
		}
	}
	return v
}

// TestHostileControlIndex checks that a client with write access to the control index only cannot make a command of either program
// change objects outside the session. Each kind of record is rewritten in each way, alone and with all others. Each run of the test
// takes a draw of these.
func TestHostileControlIndex(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	defer wipe(t, n)
	uuid := bystanders(t, n)
	at := []string{"--target-host", n.URL, "--session-name", "sec"}
	repo := []string{"--repo-uri", demoRepo(), "--snapshot-name", "snap1"}
	type hostile struct {
		name string
		do   func(t *testing.T)
	}
	var cases []hostile
	for name, change := range map[string]func(string) string{
		"another index": strings.NewReplacer("orders", "victim", "catalogue", "payroll", "weblogs", "rfsd-trial-victim").Replace,
		"patterns":      strings.NewReplacer("orders", "*", "catalogue", "%2A", "weblogs", "victim,payroll").Replace,
	} {
		for _, kinds := range [][]string{{"created"}, {"index"}, {"target", "tuned", "phase"}, nil} {
			cases = append(cases, hostile{strings.Join(kinds, "+") + "/" + name, func(t *testing.T) { disguise(t, n, kinds, change) }})
		}
	}
	for name, forged := range map[string]func() forgery{
		"scratch":             func() forgery { return forgery{"INTENDED", map[string]any{"scratch": true}} },
		"scratch of the UUID": func() forgery { return forgery{"CREATED", map[string]any{"scratch": true, "uuid": uuid}} },
		"UUID and a sequence number": func() forgery {
			return forgery{"CREATED", map[string]any{"uuid": uuid, "sequence": map[string]any{"victim/0": 1000}}}
		},
	} {
		cases = append(cases, hostile{"forged/" + name, func(t *testing.T) { forge(t, n, forged()) }})
	}
	cases = append(cases, hostile{"entries, items and what follows them, orders, permits", func(t *testing.T) { steer(t, n) }})
	slices.SortFunc(cases, func(a, b hostile) int { return strings.Compare(a.name, b.name) })
	for _, c := range draw.Of(t, 3, cases) {
		t.Run(c.name, func(t *testing.T) {
			for _, index := range slices.Concat(own, []string{"rfsd-trial-catalogue", "rfsd-trial-orders", "rfsd-trial-weblogs", ".rfs*", ".migrations*"}) {
				_, _ = n.Send(t.Context(), "DELETE", "/"+index+"?expand_wildcards=all", "", nil) // what the former case has left
			}
			dir := t.TempDir()
			trial := append([]string{"migrate", "--trial", "5", "--trial-measure", "0s", "--unavailable-timeout", "2s"}, repo...)
			for _, args := range [][]string{append([]string{"migrate", "--phases", "metadata,indices", "--tune-target"}, repo...), trial} {
				if r := RunIn(t, dir, nil, "rfsd", append(args, at...)...); r.Code != 0 {
					t.Fatalf("%v: exit %d: %s", args, r.Code, r.Stderr)
				}
			}
			before := foreigners(t, n)
			c.do(t)
			forgeFailures(t, dir)
			for _, command := range [][]string{
				{"rfsctl", "created"}, {"rfsctl", "items", "list"}, {"rfsctl", "failures"}, {"rfsctl", "target", "restore"}, append([]string{"rfsd"}, trial...),
				{"rfsctl", "cleanup", "--trial"}, append([]string{"rfsd", "migrate", "--max-rate", "1000MB", "--unavailable-timeout", "2s"}, repo...), {"rfsd", "redrive"},
				append([]string{"rfsd", "verify"}, repo...), {"rfsctl", "status"}, {"rfsctl", "undo", "--yes"}, {"rfsctl", "cleanup", "--force"},
			} {
				r := RunIn(t, dir, nil, command[0], append(slices.Clone(command[1:]), at...)...)
				t.Logf("%s: exit %d", strings.Join(command[:min(3, len(command))], " "), r.Code)
				if out := r.Stdout + r.Stderr; strings.Contains(out, "goroutine ") {
					t.Errorf("%v: %s", command, out)
				}
				after := foreigners(t, n)
				var changes []string
				for _, name := range slices.Sorted(maps.Keys(before)) {
					if after[name] != before[name] {
						changes = append(changes, fmt.Sprintf("%s is %.200s, was %.200s", name, after[name], before[name]))
					}
				}
				for _, name := range slices.Sorted(maps.Keys(after)) {
					if _, was := before[name]; !was {
						changes = append(changes, fmt.Sprintf("%s is new: %.200s", name, after[name]))
					}
				}
				if len(changes) > 0 {
					t.Errorf("%v changed %d things that are not the session's:\n%s\n%s%s", command, len(changes), strings.Join(changes[:min(len(changes), 5)], "\n"), r.Stdout, r.Stderr)
				}
				if t.Failed() {
					wipe(t, n)
					uuid = bystanders(t, n)
					return
				}
			}
		})
	}
}

// forgeFailures writes failed documents of indices that are not the session's to its folder.
func forgeFailures(t *testing.T, dir string) {
	t.Helper()
	dir = filepath.Join(dir, "rfsd-failed", "sec")
	must(t, os.MkdirAll(dir, 0o700))
	var lines bytes.Buffer
	for _, index := range []string{"victim", "payroll", "former", "rfsd-trial-victim"} {
		fmt.Fprintf(&lines, `{"index":%q,"id":"1","shard":0,"ordinal":1,"status":429,"reason":"rejected","detail":"x","source":{"of":"an attacker"}}`+"\n", index)
	}
	must(t, os.WriteFile(filepath.Join(dir, "forged.ndjson"), lines.Bytes(), 0o600))
}

// forgery is the record of an object that the session has not created.
type forgery struct {
	state  string
	object map[string]any
}

// forge adds records by which objects of others would be the session's: of each kind, by name and by patterns.
func forge(t *testing.T, n *cluster.Node, f forgery) {
	t.Helper()
	var bulk bytes.Buffer
	for _, index := range []string{".rfs_control_sec", ".rfs_control_sec-trial"} {
		addRecord(t, &bulk, index, "mark", map[string]any{"kind": "mark", "body": map[string]any{"token": formerMark}})
		for _, kind := range []string{"index", "data-stream", "template", "index-template", "component-template", "pipeline", "script", "policy", "alias", "setting"} {
			for _, name := range []string{"victim", "payroll", "former", "rfsd-trial-victim", "*", "victim,payroll", "_all", "vic*", "%2A", "-victim", "../victim", ""} {
				now := time.Now().UnixMilli()
				addRecord(t, &bulk, index, fmt.Sprintf("created:%x", sha256.Sum256([]byte(kind+"\x00"+name))), map[string]any{
					"kind": "created", "state": f.state, "createdAt": now, "updatedAt": now,
					"body": map[string]any{"kind": kind, "name": name, "since": now, "object": f.object},
				})
			}
		}
	}
	_, err := n.Send(t.Context(), "POST", "/_bulk?refresh=true", "application/x-ndjson", bulk.Bytes())
	must(t, err)
}

// steer adds records that lead to indices that the session has not selected: entries of these, open items of them, items that such
// items follow, orders and permits.
func steer(t *testing.T, n *cluster.Node) {
	t.Helper()
	var bulk bytes.Buffer
	now := time.Now().UnixMilli()
	key := func(index string) string { return base64.RawURLEncoding.EncodeToString([]byte(index)) }
	item := func(index string) string { return key(index) + "__0__0" }
	var victims []string
	for _, index := range []string{"victim", "payroll", "rfsd-trial-victim"} {
		victims = append(victims, item(index))
	}
	found := map[string]int{}
	for _, r := range stored(t, n) {
		kind, _ := r.Source["kind"].(string)
		switch isItem := strings.HasPrefix(r.Index, ".migrations"); {
		case isItem && strings.Contains(r.ID, "__"):
			found["items"]++
			source := maps.Clone(r.Source)
			delete(source, "successor_items")
			delete(source, "completedAt")
			delete(source, "status")
			source["expiration"] = 0
			for _, id := range victims {
				addRecord(t, &bulk, r.Index, id, source)
				addRecord(t, &bulk, strings.TrimSuffix(r.Index, "-trial"), id, source)
			}
			source = maps.Clone(r.Source)
			source["successor_items"], source["completedAt"] = strings.Join(victims, ","), now/1000
			addRecord(t, &bulk, r.Index, r.ID, source)
			addRecord(t, &bulk, strings.TrimSuffix(r.Index, "-trial"), r.ID, source)
		case kind == "index":
			found["entries"]++
			for _, index := range []string{"victim", "payroll", "rfsd-trial-victim"} {
				b, err := json.Marshal(r.Source)
				must(t, err)
				var source map[string]any
				must(t, json.Unmarshal(b, &source))
				rename := strings.NewReplacer("orders", index, "catalogue", index, "weblogs", index).Replace
				addRecord(t, &bulk, r.Index, "index:"+key(index), rewrite(source, rename))
			}
		}
	}
	if found["items"] == 0 || found["entries"] == 0 {
		t.Fatalf("the sessions have no entries or no items: %v", found)
	}
	for _, control := range []string{".rfs_control_sec", ".rfs_control_sec-trial"} {
		addRecord(t, &bulk, control, "intent:fleet", map[string]any{"kind": "intent", "state": "RUN", "createdAt": now, "updatedAt": now, "body": map[string]any{
			"desiredWorkers": 100_000, "drainedNodes": []string{"victim", "*"}, "who": "victim", "replaced": map[string]int64{"state": 1 << 60, "*": 9},
		}})
		addRecord(t, &bulk, control, "permits:rate", map[string]any{"kind": "permits", "createdAt": now, "updatedAt": now, "body": map[string]any{
			"permits": []any{map[string]any{"holder": "victim", "part": 999_000_000, "expire": now + 3000}},
		}})
	}
	_, err := n.Send(t.Context(), "POST", "/_bulk?refresh=true", "application/x-ndjson", bulk.Bytes())
	must(t, err)
}

func addRecord(t *testing.T, bulk *bytes.Buffer, index, id string, source any) {
	t.Helper()
	b, err := json.Marshal(source)
	must(t, err)
	fmt.Fprintf(bulk, "{\"index\":{\"_index\":%q,\"_id\":%q}}\n%s\n", index, id, b)
}

// disguise rewrites the texts in records of some kinds, or of all, and adds them under the names that they then have.
func disguise(t *testing.T, n *cluster.Node, kinds []string, change func(string) string) {
	t.Helper()
	var bulk bytes.Buffer
	for _, r := range stored(t, n) {
		kind, _ := r.Source["kind"].(string)
		if kind == "" {
			kind = "item"
		}
		if len(kinds) > 0 && !slices.Contains(kinds, kind) {
			continue
		}
		was, err := json.Marshal(r.Source)
		must(t, err)
		changed := rewrite(r.Source, change)
		if is, err := json.Marshal(changed); err != nil || bytes.Equal(is, was) {
			continue
		}
		addRecord(t, &bulk, r.Index, r.ID, changed)
		if id := change(r.ID); id != r.ID {
			addRecord(t, &bulk, r.Index, id, changed)
		}
	}
	if bulk.Len() == 0 {
		t.Skipf("not run: no record of the kinds %v names an index", kinds)
	}
	_, err := n.Send(t.Context(), "POST", "/_bulk?refresh=true", "application/x-ndjson", bulk.Bytes())
	must(t, err)
}
