package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestAWorkerAsksTheStoreLittle counts a worker's requests to the coordination store for one lease. The simulated fleet (testing/fleet)
// assumes 10 requests before the search for an item, one search, 2 before the first document, and 2 at the end in addition to progress.
func TestAWorkerAsksTheStoreLittle(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	to, err := url.Parse(n.URL)
	must(t, err)
	next := httputil.NewSingleHostReverseProxy(to)
	var mu sync.Mutex
	var asked []string
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.rfs") || strings.HasPrefix(r.URL.Path, "/_nodes") || strings.HasPrefix(r.URL.Path, "/_aliases") {
			mu.Lock()
			asked = append(asked, r.Method+" "+r.URL.Path)
			mu.Unlock()
		}
		next.ServeHTTP(w, r)
	}))
	defer door.Close()
	args := workerArgs(door.URL, demoRepo(), "little", "--initial-lease-duration", "5m")
	leases := 0
	for {
		mu.Lock()
		asked = nil
		mu.Unlock()
		r, _, code := runWorker(t.Context(), t, t.TempDir(), args)
		if code == 3 {
			break
		}
		if r.Outcome != "completed" {
			continue
		}
		if leases++; leases == 1 {
			continue // it seeded the work
		}
		mu.Lock()
		if len(asked) > 22 { // one reads by itself what the operator wants; others tried items that a stale search found
			t.Errorf("%d requests for one lease:\n%s", len(asked), strings.Join(asked, "\n"))
		}
		if strings.Contains(strings.Join(asked, " "), "/_aliases") {
			t.Error("a worker changed the state of the cluster")
		}
		t.Logf("%d requests", len(asked))
		mu.Unlock()
	}
	if leases < 3 {
		t.Errorf("%d leases", leases)
	}
}
