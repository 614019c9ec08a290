package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/state"
)

// TestRedrive_OfASessionThatNeverBegan is an error, and leaves nothing behind.
func TestRedrive_OfASessionThatNeverBegan(t *testing.T) {
	var asked []string
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			_, _ = w.Write([]byte(`{"name":"n","cluster_uuid":"u","version":{"distribution":"opensearch","number":"2.19.4"}}`))
			return
		}
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{}`))
	}))
	defer cluster.Close()
	dir := t.TempDir()
	for name, more := range map[string][]string{
		"in the target":             nil,
		"in a file":                 {"--coordinator-file", filepath.Join(dir, "none.db")},
		"and no name of an index":   {"--failed-documents", dir},
		"and no place of documents": {"--index-allowlist", "logs"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			app := newApp()
			app.Writer, app.ExitErrHandler = &out, func(*cli.Context, error) {}
			err := app.RunContext(t.Context(), append([]string{"rfsd", "redrive", "--target-host", cluster.URL, "--session-name", "never"}, more...))
			if !errors.Is(err, state.ErrNone) || strings.Contains(out.String(), "nothing to send") {
				t.Errorf("%v: %s", err, out.String())
			}
		})
	}
	for _, a := range asked {
		if !strings.HasPrefix(a, "HEAD ") && !strings.HasPrefix(a, "GET ") {
			t.Errorf("it sent %s", a)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
