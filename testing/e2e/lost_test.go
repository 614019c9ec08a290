package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestDocumentsThatADeadNodeLosesAreSentAgain kills the only node of the target while documents come. Its indices get an asynchronous
// translog by a template. rfsd makes it synchronous, and another client makes it asynchronous again. What is lost is sent again by the same
// command.
func TestDocumentsThatADeadNodeLosesAreSentAgain(t *testing.T) {
	const documents, size = 8000, 500
	n := cluster.OpenSearchNodes(t, targets[0], 1)[0]
	repo := repositoryOn(t, n)
	call(t, n, "PUT", "/logs", json.RawMessage(`{"settings":{"number_of_shards":1,"number_of_replicas":0},"aliases":{"read":{}}}`))
	for from := 0; from < documents; from += 1000 {
		var body bytes.Buffer
		for k := from; k < from+1000; k++ {
			fmt.Fprintf(&body, "{\"index\":{\"_index\":\"logs\",\"_id\":\"%d\"}}\n{\"n\":%q}\n", k, strings.Repeat("x", size))
		}
		_, err := n.Send(t.Context(), "POST", "/_bulk", "application/x-ndjson", body.Bytes())
		must(t, err)
	}
	call(t, n, "PUT", "/_snapshot/lost", map[string]any{"type": "fs", "settings": map[string]any{"location": repo}})
	call(t, n, "PUT", "/_snapshot/lost/snap1?wait_for_completion=true", map[string]any{"include_global_state": false})
	call(t, n, "DELETE", "/_snapshot/lost", nil)
	executed := func() float64 {
		var stats struct {
			All struct {
				Primaries struct {
					Indexing struct {
						Total float64 `json:"index_total"`
					}
				}
			} `json:"_all"`
		}
		if n.JSON(t.Context(), "GET", "/logs/_stats/indexing", nil, &stats) != nil {
			return 0
		}
		return stats.All.Primaries.Indexing.Total
	}
	wipe(t, n)
	call(t, n, "PUT", "/_index_template/lost", json.RawMessage(`{"index_patterns":["logs"],"template":{"settings":{"index.translog":{"durability":"async","sync_interval":"600s"}}}}`))
	ended := make(chan Result, 1)
	go func() {
		ended <- Run(t, "rfsd", targetArgs(n.URL, repo, "--session-name", "lost", "--max-rate", "0.5MB", "--documents-per-bulk-request", "100")...)
	}()
	until(t, "documents come", func() bool { return executed() > documents/8 })
	call(t, n, "PUT", "/logs/_settings", json.RawMessage(`{"index.translog.durability":"async"}`))
	until(t, "more come", func() bool { return executed() > documents/2 })
	n.Kill()
	must(t, n.Restart(t.Context()))
	var res Result
	select {
	case res = <-ended:
	case <-time.After(4 * time.Minute):
		t.Fatal("the run does not end")
	}
	if found := countOf(t, n, "logs"); found != documents || res.Code != 0 || !strings.Contains(res.Stdout, "documents were sent again") {
		t.Errorf("exit %d with %d documents: %s%s", res.Code, found, res.Stdout, res.Stderr)
	}
}
