package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/failedtest"
)

// TestWhatTheTargetDoesToDocumentsIsCounted migrates an index with ids under several routings, and a plain one, onto indices that
// hold fewer of their documents than were sent, or others.
func TestWhatTheTargetDoesToDocumentsIsCounted(t *testing.T) {
	const ids, plain = 20, 50
	n := cluster.OpenSearch(t, targets[0])
	repo := repositoryOn(t, n)
	wipe(t, n)
	call(t, n, "PUT", "/routed", json.RawMessage(`{"settings":{"number_of_shards":5,"number_of_replicas":0}}`))
	call(t, n, "PUT", "/plain", json.RawMessage(`{"settings":{"number_of_shards":1,"number_of_replicas":0}}`))
	var body bytes.Buffer
	for i := range ids {
		for _, r := range "abcdef" {
			fmt.Fprintf(&body, "{\"index\":{\"_index\":\"routed\",\"_id\":\"%d\",\"routing\":\"%c\"}}\n{\"n\":%d,\"r\":\"%c\"}\n", i, r, i, r)
		}
	}
	for i := range plain {
		fmt.Fprintf(&body, "{\"index\":{\"_index\":\"plain\",\"_id\":\"%d\"}}\n{\"n\":%d}\n", i, i)
	}
	_, err := n.Send(t.Context(), "POST", "/_bulk?refresh=true", "application/x-ndjson", body.Bytes())
	must(t, err)
	routed := countOf(t, n, "routed")
	call(t, n, "PUT", "/_snapshot/counted", map[string]any{"type": "fs", "settings": map[string]any{"location": repo}})
	call(t, n, "PUT", "/_snapshot/counted/snap1?wait_for_completion=true", map[string]any{"include_global_state": false})
	call(t, n, "DELETE", "/_snapshot/counted", nil)
	if routed <= ids {
		t.Fatalf("the source has %d documents of %d ids", routed, ids)
	}
	pipeline := func(processor string) func(t *testing.T) {
		return func(t *testing.T) {
			call(t, n, "PUT", "/_ingest/pipeline/counted", json.RawMessage(`{"processors":[`+processor+`]}`))
			call(t, n, "PUT", "/_index_template/counted", json.RawMessage(`{"index_patterns":["plain"],"template":{"settings":{"index.final_pipeline":"counted"}}}`))
		}
	}
	for i, c := range []struct {
		name    string
		before  func(t *testing.T)
		args    []string // the first is the index
		code    int
		indexed int // 0: any
		class   string
		says    string
	}{
		{name: "as the source", args: []string{"routed"}, indexed: routed},
		{name: "one shard", args: []string{"routed", "--shards", "routed=1"}, code: 6, indexed: ids, class: "id_collision"},
		{name: "an empty index of one shard", args: []string{"routed"}, code: 6, indexed: ids, class: "id_collision",
			before: func(t *testing.T) {
				call(t, n, "PUT", "/routed", json.RawMessage(`{"settings":{"number_of_shards":1}}`))
			}},
		{name: "two shards, keep", args: []string{"routed", "--shards", "routed=2", "--existing-documents", "keep"}, code: 6, class: "id_collision"},
		{name: "a pipeline that drops", args: []string{"plain"}, code: 6, indexed: plain - plain/10, class: "dropped_by_pipeline",
			before: pipeline(`{"drop":{"if":"ctx.n % 10 == 0"}}`)},
		{name: "a pipeline that adds a field", args: []string{"plain"}, indexed: plain, before: pipeline(`{"set":{"field":"x","value":1}}`)},
		{name: "a pipeline that changes ids", args: []string{"plain"}, code: 7, says: "final pipeline counted", before: pipeline(`{"set":{"field":"_id","value":"new-{{n}}"}}`)},
		{name: "a pipeline that changes the index", args: []string{"plain"}, code: 7, says: "final pipeline [counted]", before: pipeline(`{"set":{"field":"_index","value":"elsewhere"}}`)},
		{name: "an alias with a routing", args: []string{"plain", "--index-rename", "plain=known"}, code: 1, says: "known is an alias of index behind with",
			before: func(t *testing.T) {
				call(t, n, "PUT", "/behind", json.RawMessage(`{"aliases":{"known":{"routing":"5"}}}`))
			}},
		{name: "an asynchronous translog", args: []string{"plain"}, indexed: plain, before: func(t *testing.T) {
			call(t, n, "PUT", "/_index_template/counted", json.RawMessage(`{"index_patterns":["plain"],"template":{"settings":{"index.translog.durability":"async"}}}`))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wipe(t, n)
			if c.before != nil {
				c.before(t)
			}
			dir := filepath.Join(t.TempDir(), "failed")
			res := Run(t, "rfsd", targetArgs(n.URL, repo, append([]string{"--session-name", fmt.Sprint("counted-", i), "--failed-documents", dir, "--output", "json", "--index-allowlist"}, c.args...)...)...)
			if res.Code != c.code || !strings.Contains(res.Stdout+res.Stderr, c.says) {
				t.Fatalf("exit %d, want %d with %q: %s%s", res.Code, c.code, c.says, res.Stdout, res.Stderr)
			}
			if c.says != "" {
				return
			}
			x := parseSummary(t, res).Indices[0]
			found := countOf(t, n, c.args[0])
			if x.Indexed != found || x.Indexed+x.Failed != x.Live || x.Kept != 0 || c.indexed != 0 && x.Indexed != c.indexed {
				t.Errorf("%d on the target, %+v", found, x)
			}
			for f, err := range failedtest.Read(dir) {
				must(t, err)
				if string(f.Reason) != c.class {
					t.Errorf("%+v", f)
				}
			}
			var settings map[string]struct{ Settings map[string]any }
			must(t, n.JSON(t.Context(), "GET", "/plain,routed/_settings?flat_settings=true&ignore_unavailable=true", nil, &settings))
			if d := settings["plain"].Settings["index.translog.durability"]; strings.Contains(c.name, "translog") && (d != "async" || !strings.Contains(res.Stderr, `"index.translog.durability":"ReQuest"`)) {
				t.Errorf("durability %v afterwards: %s", d, res.Stderr)
			}
		})
	}
}
