package sinks_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/daemon/sinks"
	"github.com/rfsd/rfsd/daemon/status"
)

func TestAWebhookGetsTheEventAndItsURLStaysSecret(t *testing.T) {
	var got status.Event
	answer := http.StatusNoContent
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/json" || json.Unmarshal(b, &got) != nil {
			t.Errorf("%s, %v", b, err)
		}
		w.WriteHeader(answer)
	}))
	w := sinks.NewWebhook(srv.URL + "/canary")
	if err := w.Deliver(t.Context(), status.Event{Subject: "s", Code: "c"}); err != nil || got.Subject != "s" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, answer = range []int{500, 302, 403} {
		if err := w.Deliver(t.Context(), status.Event{}); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%d: %v", answer, err)
		}
	}
	srv.Close()
	if err := w.Deliver(t.Context(), status.Event{}); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
}

func TestACommandGetsTheEventAndNoSecrets(t *testing.T) {
	t.Setenv("RFS_TARGET_PASSWORD", "canary")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary")
	out := filepath.Join(t.TempDir(), "out")
	c := sinks.NewCommand([]string{"/bin/sh", "-c", `cat > "$0"; env >> "$0"`, out})
	if err := c.Deliver(t.Context(), status.Event{Subject: "s; rm -rf /", Code: "c"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(b), `"subject":"s; rm -rf /"`) || strings.Contains(string(b), "canary") {
		t.Errorf("%s, %v", b, err)
	}
	if err := sinks.NewCommand([]string{"/bin/false"}).Deliver(t.Context(), status.Event{}); err == nil {
		t.Error("a command that fails is taken for delivered")
	}
}
