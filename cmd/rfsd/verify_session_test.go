package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/state"
)

// TestVerify_SessionThatDoesNotExist: a comparison with a session that was named and that does not exist is an error, which names those that
// do. Without a name it is none.
func TestVerify_SessionThatDoesNotExist(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, `{"cluster_uuid":"u","version":{"distribution":"opensearch","number":"2.19.4"}}`)
		case "/.rfs_control*/_settings":
			fmt.Fprint(w, `{".rfs_control_night":{"settings":{"index":{"uuid":"x"}}},".rfs_control":{"settings":{"index":{"uuid":"y"}}}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"type":"index_not_found_exception"},"status":404}`)
		}
	}))
	defer target.Close()
	demo := filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo")
	verify := func(more ...string) error {
		app := newApp()
		app.Writer, app.ErrWriter, app.ExitErrHandler = io.Discard, io.Discard, func(*cli.Context, error) {}
		return app.RunContext(t.Context(), append([]string{"rfsd", "verify", "--repo-uri", demo, "--snapshot-name", "snap1", "--target-host", target.URL, "--quick"}, more...))
	}
	for name, more := range map[string][]string{
		"in the target": {"--session-name", "never"},
		"in a file":     {"--coordinator-file", filepath.Join(t.TempDir(), "none.db")},
	} {
		t.Run(name, func(t *testing.T) {
			if err := verify(more...); !errors.Is(err, state.ErrNone) || more[0] == "--session-name" && !strings.Contains(err.Error(), `holds no session "never", only the one without a name, "night"`) {
				t.Errorf("%v", err)
			}
		})
	}
	if err := verify(); errors.Is(err, state.ErrNone) {
		t.Errorf("without a name: %v", err)
	}
}
