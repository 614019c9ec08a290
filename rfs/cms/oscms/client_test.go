package oscms_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/cms/oscms"
)

// plain is a client without any policy of its own.
type plain struct {
	base string
	http *http.Client
}

func newPlain(base string) *plain {
	return &plain{base: base, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

func (p *plain) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	u := p.base + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.GetBody = nil // no repetition by the transport
	req.Header.Set("Content-Type", "application/json")
	res, err := p.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

var sessions atomic.Int64

// session gives a fresh session name and deletes its indices afterwards.
func session(t testing.TB, c oscms.Client) string {
	t.Helper()
	s := fmt.Sprintf("t%x-%d", time.Now().UnixNano(), sessions.Add(1))
	t.Cleanup(func() {
		for _, index := range []string{".migrations_working_state_" + s, ".rfs_control_" + s} {
			status, answer, err := c.Do(context.Background(), http.MethodDelete, "/"+index, nil, nil)
			if err != nil || status >= 300 && status != http.StatusNotFound {
				t.Errorf("delete %s: %d %s %v", index, status, strings.TrimSpace(string(answer)), err)
			}
		}
	})
	return s
}
