package e2e

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestWhatWillDifferIsToldBeforeAnythingIsWritten lets the first request that would write a template or an index
// see what the program has said by then.
func TestWhatWillDifferIsToldBeforeAnythingIsWritten(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	repo := filepath.Join(Root(), "testing", "fixtures", "1.7.6-templates")
	for _, phases := range []string{"metadata,indices", "indices"} {
		t.Run(phases, func(t *testing.T) {
			wipe(t, n)
			var said lockedBuffer
			var once sync.Once
			var first, by string
			p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut && !strings.HasPrefix(r.URL.Path, "/.") {
					once.Do(func() {
						first = r.URL.Path
						// What was written to the pipe before the request may still be on its way to this process.
						for end := time.Now().Add(time.Minute); time.Now().Before(end) && !strings.Contains(said.String(), `"will differ from the snapshot"`); {
							<-time.After(5 * time.Millisecond)
						}
						by = said.String()
					})
				}
				forward(w, r, n.URL)
			}))
			defer p.Close()
			cmd := exec.Command(Binary(t, "rfsd"), "migrate", "--repo-uri", repo, "--snapshot-name", "snap1", "--target-host", p.URL,
				"--session-name", "foretold", "--phases", phases, "--output", "json")
			cmd.Dir, cmd.Stderr = t.TempDir(), &said
			must(t, cmd.Run())
			if first == "" {
				t.Fatal("nothing was written")
			}
			for _, rule := range []string{"string-to-text", "default-mapping", `"nothing is written yet"`} {
				if !strings.Contains(by, rule) {
					t.Errorf("PUT %s came before a word of %s:\n%s", first, rule, by)
				}
			}
			if after := strings.TrimPrefix(said.String(), by); strings.Contains(after, "string-to-text") {
				t.Errorf("told twice:\n%s", after)
			}
		})
	}
}
