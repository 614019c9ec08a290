package creation

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// aliasesOf answers for one index with its aliases and remembers what is changed.
type aliasesOf struct {
	aliases string
	status  int    // of the change
	changed string // body
}

func (a *aliasesOf) Do(_ context.Context, method, path string, _ url.Values, body []byte) (int, []byte, error) {
	if method == http.MethodGet && path == "/logs-1" {
		return http.StatusOK, []byte(`{"logs-1":{"aliases":` + a.aliases + `}}`), nil
	}
	a.changed = string(body)
	return a.status, []byte(`{}`), nil
}

func TestWithhold(t *testing.T) {
	const late = `{"logs":{"is_write_index":true},"recent":{"filter":{}}}`
	for _, c := range []struct {
		name, late, there string
		status            int
		want              string
		err               error
	}{
		{"a template set one that waits", late, `{"logs":{}}`, 200, `{"actions":[{"remove":{"alias":"logs","index":"logs-1"}}]}`, nil},
		{"another alias stays", late, `{"other":{}}`, 200, "", nil},
		{"nothing waits", `{}`, `{"logs":{}}`, 200, "", nil},
		{"the target refuses", late, `{"logs":{}}`, 403, `{"actions":[{"remove":{"alias":"logs","index":"logs-1"}}]}`, fault.ErrConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &aliasesOf{aliases: c.there, status: c.status}
			err := (&Indices{Requester: a, Log: slog.New(slog.DiscardHandler)}).withhold(t.Context(), map[string]json.RawMessage{"logs-1": json.RawMessage(c.late)})
			if a.changed != c.want || !errors.Is(err, c.err) {
				t.Errorf("changed %s, %v; want %s, %v", a.changed, err, c.want, c.err)
			}
		})
	}
}
