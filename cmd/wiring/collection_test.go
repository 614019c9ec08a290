package wiring

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/testing/signer"
)

// collectionOf starts what refuses every request as a collection of a type does, and counts them.
func collectionOf(t *testing.T, kind string) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"type":"illegal_argument_exception","reason":"KNN features not supported on %s collection type"},"status":400}`, kind)
	}))
	t.Cleanup(s.Close)
	signer.SetEnvironment(t, "eu-west-1", "AKID", "secret")
	return s.URL, requests
}

func TestOpenDestination_OfACollection(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	elsewhere := []string{"--coordinator-file", filepath.Join(t.TempDir(), "c.db")}
	with := func(more ...string) []string { return append(more, elsewhere...) }
	for _, c := range []struct {
		name, kind string
		args       []string
		words      string // of the refusal; "": none
		warning    string
		requests   int64
	}{
		{"type search", "SEARCH", with(), "", "", 1},
		{"the state has no place", "SEARCH", nil, "--coordinator-bucket, --coordinator-host or --coordinator-file", "", 0},
		{"a comparison", "SEARCH", with(), "comparisons (--verify)", "", 0},
		{"pipelines", "SEARCH", with("--run-pipelines"), "leave out --run-pipelines", "", 0},
		{"a collection as coordinator", "SEARCH", []string{"--coordinator-host", "https://x.eu-west-1.aoss.amazonaws.com", "--coordinator-aws-sigv4"}, "", "", 1},
		{"type time series", "TIMESERIES", with(), "permit it (--allow-duplicates)", "", 1},
		{"type time series, with copies", "TIMESERIES", with("--allow-duplicates"), "", "a document that is sent again, because an answer was lost or a process died, is there twice", 1},
		{"ids that are not kept", "TIMESERIES", with("--allow-duplicates", "--existing-documents", "keep"), "--existing-documents keep compares ids", "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, requests := collectionOf(t, c.kind)
			o, err := parsedMigration(t, append([]string{"--repo-uri", filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo"), "--snapshot-name", "snap1",
				"--target-host", url, "--target-aws-sigv4", "--target-aws-service", "aoss"}, c.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			o.Verify = c.name == "a comparison"
			var log bytes.Buffer
			s := &phase.Session{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
			in := NewResources(o)
			_, _, done, err := openDestination(t.Context(), o, s, in)
			if err == nil {
				defer done() //nolint:errcheck // nothing was sent
			}
			if (err == nil) != (c.words == "") || err != nil && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.words)) {
				t.Errorf("%v", err)
			}
			if n := requests.Load(); n != c.requests || !strings.Contains(log.String(), c.warning) || c.warning == "" && log.Len() > 0 {
				t.Errorf("%d requests, logged %s", n, log.String())
			}
			if o.coordinator.URL != "" {
				if _, _, err := OpenStore(t.Context(), o, false); err == nil || !strings.Contains(err.Error(), "can only be a target") {
					t.Errorf("a collection keeps the state: %v", err)
				}
			}
		})
	}
}
