package creation_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// settled is a target index with settings.
type settled struct {
	is     string
	status int // of changes
	sent   *[]string
}

func (a settled) Do(_ context.Context, method, path string, _ url.Values, body []byte) (int, []byte, error) {
	if method == http.MethodGet {
		return 200, []byte(`{"logs":{"settings":{` + a.is + `}}}`), nil
	}
	*a.sent = append(*a.sent, method+" "+path+" "+string(body))
	return a.status, []byte(`{"error":{"type":"illegal_argument_exception","reason":"no"}}`), nil
}

func TestIndices_ChangeSettings(t *testing.T) {
	const replicas, refresh, limit = `"index.number_of_replicas":"1"`, `"index.refresh_interval":"1s"`, `"index.mapping.total_fields.limit":"2000"`
	for _, c := range []struct {
		name     string
		was, now map[string]string // besides one replica
		is       string
		status   int
		want     string // the request; empty: none
		left     string // in the only text; empty: there is none
	}{
		{"a value is changed", map[string]string{"index.refresh_interval": "1s"}, map[string]string{"index.refresh_interval": "30s"}, replicas + "," + refresh, 200, `PUT /logs/_settings {"index.refresh_interval":"30s"}`, ""},
		{"a value is set", nil, map[string]string{"index.mapping.total_fields.limit": "2000"}, replicas, 200, `{"index.mapping.total_fields.limit":"2000"}`, ""},
		{"a value is removed", map[string]string{"index.refresh_interval": "1s"}, nil, replicas + "," + refresh, 200, `{"index.refresh_interval":null}`, ""},
		{"replicas", nil, map[string]string{"index.number_of_replicas": "2"}, replicas, 200, `{"index.number_of_replicas":"2"}`, ""},
		{"the target has another value", nil, map[string]string{"index.refresh_interval": "30s"}, replicas + "," + refresh, 200, "", `index.refresh_interval: the source has changed it from "" to "30s", the target has "1s"`},
		{"it was changed before", nil, map[string]string{"index.mapping.total_fields.limit": "2000"}, replicas + "," + limit, 200, "", ""},
		{"it does not follow the source", nil, map[string]string{"index.gc_deletes": "5m", "index.blocks.write": "true", "index.routing.allocation.require.box": "hot"}, replicas, 200, "", ""},
		{"the target refuses", nil, map[string]string{"index.refresh_interval": "30s"}, replicas, 400, `{"index.refresh_interval":"30s"}`, "the target does not take index.refresh_interval"},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := func(more map[string]string) *snapshot.Index {
				all := map[string]string{"index.number_of_shards": "1", "index.number_of_replicas": "1"}
				for key, v := range more {
					all[key] = v
				}
				return &snapshot.Index{Settings: all}
			}
			var sent []string
			x := &creation.Indices{Requester: settled{c.is, c.status, &sent}, Version: target.Version{Major: 2, Minor: 19}, Log: slog.New(slog.DiscardHandler)}
			entry := plan.Entry{Naming: plan.Naming{Index: "logs"}}
			left, err := x.ChangeSettings(t.Context(), plan.Index{Name: "logs", Source: source(c.now), Entry: entry}, source(c.was), []string{"logs"})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(sent, " "); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("sent %q, want %q", got, c.want)
			}
			if got := strings.Join(left, " "); !strings.Contains(got, c.left) || (got == "") != (c.left == "") {
				t.Errorf("left %q, want %q", got, c.left)
			}
		})
	}
}
