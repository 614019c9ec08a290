package state_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// TestOpenCluster_WritesNothing opens a session in a cluster that refuses every write, as at the flood stage of its disks.
func TestOpenCluster_WritesNothing(t *testing.T) {
	answers := map[string]string{
		"GET /":                    `{"version":{"distribution":"opensearch","number":"2.19.4"}}`,
		"HEAD /.rfs_control_night": "",
		"GET /.rfs_records_night/_doc/incarnation":       `{"found":true,"_seq_no":0,"_primary_term":1,"_source":{"kind":"incarnation","body":{"uuid":"u1"}}}`,
		"GET /.migrations_working_state_night/_settings": `{".migrations_working_state_night":{"settings":{"index":{"uuid":"u1"}}}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, is := answers[r.Method+" "+r.URL.Path]
		if !is {
			w.WriteHeader(http.StatusTooManyRequests)
			answer = `{"error":{"type":"cluster_block_exception","reason":"index [.rfs_control_night] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];"}}`
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	client, err := target.New(t.Context(), target.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := state.OpenCluster(t.Context(), client, "night"); err != nil {
		t.Error(err)
	}
}

// TestCheckFile: nothing is left where a file could be created, and a file that exists is not changed.
func TestCheckFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "b", "c.db")
	if err := state.CheckFile(file); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	store, closeStore, err := state.CreateFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_ = store
	if err := state.CheckFile(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("while it is open: %v", err)
	}
	if err := closeStore(); err != nil {
		t.Fatal(err)
	}
	if err := state.CheckFile(file); err != nil {
		t.Errorf("a file that exists: %v", err)
	}
	if err := state.CheckFile(filepath.Join(file, "d.db")); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("below a file: %v", err)
	}
}
