package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rfsd/rfsd/testing/signer"
)

func TestCollections_AreRefusedByCommandsWithoutAFormForThem(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer s.Close()
	signer.SetEnvironment(t, "eu-west-1", "AKID", "secret")
	to := []string{"--target-host", s.URL, "--target-aws-sigv4", "--target-aws-service", "aoss", "--coordinator-file", filepath.Join(t.TempDir(), "c.db")}
	demo := []string{"--repo-uri", filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo"), "--snapshot-name", "snap1"}
	for _, args := range [][]string{
		append([]string{"import", "--from", t.TempDir()}, to...),
		append([]string{"redrive"}, to...),
		append(append([]string{"verify"}, demo...), to...),
		append(append([]string{"follow", "--once"}, demo...), to...),
	} {
		var out, said bytes.Buffer
		if code := run(t.Context(), append([]string{"rfsd"}, args...), &out, &said); code != 1 || !strings.Contains(said.String(), "collection of OpenSearch Serverless") {
			t.Errorf("rfsd %s: exit %d: %s", args[0], code, said.String())
		}
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests", n)
	}
}
