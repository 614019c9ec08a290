package wiring

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

// played is a cluster that answers what it is and has nothing.
func played(t *testing.T, root string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/":
			fmt.Fprint(w, root)
			return
		case strings.Contains(r.URL.Path, "settings"), strings.HasSuffix(r.URL.Path, "/_alias"):
			fmt.Fprint(w, "{}")
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":{"type":"resource_not_found_exception","reason":"nothing here"},"status":404}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestTargetsThatAreNotTestedAreNamed: every command that is about a target warns of Elasticsearch with the versions that are tested.
func TestTargetsThatAreNotTestedAreNamed(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	demo := filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo")
	commands := []struct {
		name string
		run  func(t *testing.T, url string, log *slog.Logger) (shown string)
	}{
		{"migrate", func(t *testing.T, url string, log *slog.Logger) string {
			o, err := parsedMigration(t, "--repo-uri", demo, "--snapshot-name", "snap1", "--target-host", url)
			if err != nil {
				t.Fatal(err)
			}
			_, _, done, err := openDestination(t.Context(), o, &phase.Session{Log: log}, NewResources(o))
			if err != nil {
				t.Fatal(err)
			}
			if err := done(); err != nil {
				t.Error(err)
			}
			return ""
		}},
		{"import", func(t *testing.T, url string, log *slog.Logger) string {
			o, err := parsedImport(t, "--from", t.TempDir(), "--target-host", url, "--coordinator-file", filepath.Join(t.TempDir(), "c.db"), "--failed-documents", t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			h, err := OpenImport(t.Context(), o, log, NewResources(o.Options))
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			return ""
		}},
		{"plan", func(t *testing.T, url string, log *slog.Logger) string {
			o, err := parsedMigration(t, "--repo-uri", demo, "--snapshot-name", "snap1", "--target-host", url)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Preflight(t.Context(), o, config.Planning{}, log)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			report.Plan(terminal.NewWriter(&out), r)
			return out.String()
		}},
	}
	for _, target := range []struct {
		name, root string
		warns      bool
	}{
		{"Elasticsearch", `{"cluster_uuid":"u","version":{"number":"7.17.9"},"tagline":"You Know, for Search"}`, true},
		{"OpenSearch", `{"cluster_uuid":"u","version":{"distribution":"opensearch","number":"2.19.4"}}`, false},
	} {
		for _, c := range commands {
			t.Run(c.name+" to "+target.name, func(t *testing.T) {
				if _, err := os.Stat(demo); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				shown := c.run(t, played(t, target.root).URL, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
				text := log.String() + shown
				for _, word := range []string{"the target is elasticsearch 7.17.9", "not tested", "2.19.4 and 3.8.0"} {
					if n := strings.Count(text, word); n != map[bool]int{true: 1}[target.warns] {
						t.Errorf("%q is there %d times: %s", word, n, text)
					}
				}
			})
		}
	}
}
