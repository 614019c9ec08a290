package oscms_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/testing/cluster"
)

var versions = []string{"1.3.14", "2.19.4", "3.8.0"}

// connect returns the program's own client of a real node, or skips.
func connect(t testing.TB, version string) *target.Client {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	return connectURL(t, cluster.OpenSearch(t, version).URL)
}

func connectURL(t testing.TB, url string) *target.Client {
	t.Helper()
	c, err := target.New(t.Context(), target.Config{URL: url, MaxConnections: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func openStore(t testing.TB, cfg oscms.Config) *oscms.Store {
	t.Helper()
	s, err := oscms.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var sessions atomic.Int64

// freshSession returns a fresh session name and deletes its indices afterwards.
func freshSession(t testing.TB, c rest.API) string {
	t.Helper()
	s := fmt.Sprintf("t%x-%d", time.Now().UnixNano(), sessions.Add(1))
	t.Cleanup(func() {
		for _, index := range []string{itemsIndex(s), controlIndex(s)} {
			status, answer, err := c.Do(context.Background(), http.MethodDelete, "/"+index, nil, nil)
			if err != nil || status >= 300 && status != http.StatusNotFound {
				t.Errorf("delete %s: %d %s %v", index, status, strings.TrimSpace(string(answer)), err)
			}
		}
	})
	return s
}

func itemsIndex(session string) string   { return ".migrations_working_state_" + session }
func controlIndex(session string) string { return ".rfs_control_" + session }

// send is one raw request that must succeed.
func send(t testing.TB, c rest.API, method, path, body string) string {
	t.Helper()
	path, query, _ := strings.Cut(path, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	status, answer, err := c.Do(t.Context(), method, path, q, []byte(body))
	if err != nil || status >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, path, status, answer, err)
	}
	return string(answer)
}

// hooked calls a hook before and after each request, which may make it fail.
type hooked struct {
	next rest.API
	hook func(method, path string) (status int, answer string, lost bool)
}

func (h *hooked) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	status, answer, lost := h.hook(method, path)
	if status != 0 {
		return status, []byte(answer), nil
	}
	s, a, err := h.next.Do(ctx, method, path, query, body)
	if lost {
		return 0, nil, fmt.Errorf("connection reset after the request was sent")
	}
	return s, a, err
}
