package rest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// answering gives a client of a server that always answers the same.
func answering(t *testing.T, status int, body string) Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return Client{URL: s.URL + "/"}
}

func TestAStatusThatIsNotWantedIsAnErrorWithTheAnswer(t *testing.T) {
	c := answering(t, 503, "not now")
	err := c.JSON(t.Context(), "GET", "/x", nil, nil)
	var e *Error
	if !errors.As(err, &e) || e.Status != 503 || e.Body != "not now" {
		t.Errorf("got %v", err)
	}
}

func TestARefusedItemIsAnError(t *testing.T) {
	c := answering(t, 200, `{"errors":true,"items":[{"index":{"_id":"1"}},{"index":{"_id":"2","error":{"type":"boom"}}}]}`)
	err := c.Bulk(t.Context(), "/x/_bulk", []byte("{}\n"))
	if err == nil || !strings.Contains(err.Error(), "item 1: index 2") || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v", err)
	}
	if err := answering(t, 200, `{"errors":false,"items":[]}`).Bulk(t.Context(), "/x/_bulk", []byte("{}\n")); err != nil {
		t.Error(err)
	}
}

func TestNumbersAreKeptExact(t *testing.T) {
	var out map[string]any
	if err := answering(t, 200, `{"n":12345678901234567890}`).JSON(t.Context(), "GET", "/x", nil, &out); err != nil {
		t.Fatal(err)
	}
	if s, ok := out["n"].(interface{ String() string }); !ok || s.String() != "12345678901234567890" {
		t.Errorf("got %v", out["n"])
	}
}
