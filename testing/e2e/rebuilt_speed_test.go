package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// maxRebuiltMemory bounds the memory of an export of rebuilt sources, in bytes.
const maxRebuiltMemory = 128 << 20

// TestRebuiltSourcesAreReadFasterThanByAScroll reads RFSD_SCROLL documents of an index with synthetic sources by a scroll of the
// cluster itself, and out of a snapshot of it. It prints the best of three rounds each, and every source must be the same.
func TestRebuiltSourcesAreReadFasterThanByAScroll(t *testing.T) {
	documents, err := strconv.Atoi(os.Getenv("RFSD_SCROLL"))
	if err != nil || documents <= 0 {
		t.Skip("RFSD_SCROLL is not set to a number of documents")
	}
	n := cluster.Elasticsearch(t, "8.19.21", cluster.Heap("1g"))
	const index = "rebuilt-speed"
	must(t, n.JSON(t.Context(), "PUT", "/"+index, json.RawMessage(`{"settings":{"index":{"number_of_shards":1,"number_of_replicas":0,"refresh_interval":"-1","mode":"logsdb"}},
 "mappings":{"properties":{"@timestamp":{"type":"date"},"host":{"properties":{"name":{"type":"keyword"}}},"level":{"type":"keyword"},"message":{"type":"text","store":true},
 "bytes":{"type":"long"},"took":{"type":"double"},"ip":{"type":"ip"},"ok":{"type":"boolean"},"tags":{"type":"keyword"}}}}`), nil))
	var body bytes.Buffer
	for i := range documents {
		fmt.Fprintf(&body, "{\"create\":{\"_id\":\"%d\"}}\n", i)
		fmt.Fprintf(&body, `{"@timestamp":%d,"host":{"name":"h%d"},"level":%q,"message":"request %d of session %d took longer than usual, was answered","bytes":%d,"took":%g,"ip":"10.0.%d.%d","ok":%t,"tags":["t%d","a"]}`+"\n",
			1700000000000+i*7, i%50, []string{"info", "warn", "error"}[i%3], i, i*31, i*i%100_000, float64(i)/7, i>>8&255, i&255, i%2 == 0, i%20)
		if body.Len() > 4<<20 || i == documents-1 {
			answer, err := n.Send(t.Context(), "POST", "/"+index+"/_bulk?filter_path=errors", "application/x-ndjson", body.Bytes())
			must(t, err)
			if !bytes.Contains(answer, []byte(`"errors":false`)) {
				t.Fatalf("bulk: %s", answer)
			}
			body.Reset()
		}
	}
	call(t, n, "POST", "/"+index+"/_forcemerge?max_num_segments=1", nil)
	call(t, n, "POST", "/"+index+"/_refresh", nil)
	repo, err := n.Snapshot(t.Context(), "speed", "snap1", index)
	must(t, err)
	scrolls, exports := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	var want truth.Docs
	peak := int64(0)
	for range 3 {
		docs, took := timedScroll(t, n, index)
		want, scrolls = docs, min(scrolls, took)
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		res, c := costed(t, n, dir, "migrate", "--repo-uri", repo, "--snapshot-name", "snap1", "--export-dir", out)
		if res.Code != 0 {
			t.Fatalf("exit %d\n%s", res.Code, res.Stderr)
		}
		exports, peak = min(exports, c.wall), max(peak, c.peak)
		got, err := truth.LoadExport(out)
		must(t, err)
		if d := truth.Compare(want, got); d.Of("", truth.Equal) != documents {
			t.Fatalf("%d of %d sources are equal: %s", d.Of("", truth.Equal), documents, d.Faults())
		}
	}
	t.Logf("%d documents: scroll of the cluster %v, rfsd %v (%.2f of it), at most %d MB", documents, scrolls.Round(time.Millisecond), exports.Round(time.Millisecond),
		float64(exports)/float64(scrolls), peak>>20)
	if exports > scrolls {
		t.Errorf("rfsd took %v, the scroll %v", exports, scrolls)
	}
	if peak > maxRebuiltMemory {
		t.Errorf("a peak of %d bytes, at most %d wanted", peak, maxRebuiltMemory)
	}
}

// timedScroll reads all documents of an index, 1,000 in an answer, and returns how long the cluster took to answer.
func timedScroll(t *testing.T, n *cluster.Node, index string) (truth.Docs, time.Duration) {
	t.Helper()
	docs, took := truth.Docs{}, time.Duration(0)
	path, request := "/"+index+"/_search?scroll=1m&size=1000", `{"sort":["_doc"]}`
	for {
		begin := time.Now()
		answer, err := n.Send(t.Context(), "POST", path, "application/json", []byte(request))
		took += time.Since(begin)
		must(t, err)
		var page struct {
			Scroll string `json:"_scroll_id"`
			Hits   struct {
				Hits []struct {
					ID     string          `json:"_id"`
					Source json.RawMessage `json:"_source"`
				} `json:"hits"`
			} `json:"hits"`
		}
		must(t, json.Unmarshal(answer, &page))
		if len(page.Hits.Hits) == 0 {
			return docs, took
		}
		for _, h := range page.Hits.Hits {
			docs[truth.Key{Index: index, ID: h.ID}] = h.Source
		}
		path, request = "/_search/scroll", fmt.Sprintf(`{"scroll":"1m","scroll_id":%q}`, page.Scroll)
	}
}
