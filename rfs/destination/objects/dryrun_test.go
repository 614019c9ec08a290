package objects_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// questioned is a target that is asked, whose answers are found by method and path; what it lacks is not found.
type questioned struct {
	says  map[string]string // "METHOD /path" → body; three digits are a status
	asked *[]string
}

func (q questioned) Do(_ context.Context, method, path string, _ url.Values, body []byte) (status int, answer []byte, err error) {
	*q.asked = append(*q.asked, method+" "+path)
	answer, status = []byte(q.says[method+" "+path]), http.StatusOK
	if len(answer) == 0 {
		return http.StatusNotFound, []byte(`{"error":"no such thing"}`), nil
	}
	if refuse := q.says["refuse"]; refuse != "" && strings.Contains(string(body), refuse) {
		return http.StatusBadRequest, []byte(`{"error":{"type":"mapper_parsing_exception","reason":"no ` + refuse + `"},"status":400}`), nil
	}
	return status, answer, nil
}

func (q questioned) IndexExists(_ context.Context, name string) (bool, error) {
	_, there := q.says["HEAD /"+name]
	return there, nil
}
func (questioned) UnfitAliases(context.Context, []string) (map[string]string, error) { return nil, nil }
func (questioned) PipelineEffects(context.Context, string) ([]string, error)         { return nil, nil }
func (questioned) FinalPipelines(context.Context, []string) (map[string]string, error) {
	return nil, nil
}

const simulates = "POST /_index_template/_simulate"

// took returns answers of a target that takes everything, and more.
func took(more map[string]string) map[string]string {
	says := map[string]string{simulates: `{}`, "POST /_ingest/pipeline/_simulate": `{}`}
	maps.Copy(says, more)
	return says
}

func TestADryRunWritesNothing(t *testing.T) {
	for _, c := range []struct {
		name, method, path, body string
		says                     map[string]string
		asks                     string // what the target is asked; "": nothing
		status                   int
		fails                    bool
	}{
		{"a question", "GET", "/_template/t", "", map[string]string{"GET /_template/t": `{"t":{}}`}, "GET /_template/t", 200, false},
		{"whether something is there", "HEAD", "/_template/t", "", map[string]string{}, "HEAD /_template/t", 404, false},
		{"a legacy template", "PUT", "/_template/t", `{"order":1,"settings":{"a":1}}`, took(nil), simulates, 200, false},
		{"a legacy template that is not an object", "PUT", "/_template/t", `[`, took(nil), "", 0, true},
		{"an index template", "PUT", "/_index_template/t", `{"template":{"settings":{"a":1}}}`, took(nil), simulates, 200, false},
		{"an index template without a part to take over", "PUT", "/_index_template/t", `{"index_patterns":["a"]}`, took(map[string]string{"refuse": `"template":null`}), simulates, 200, false},
		{"a component template", "PUT", "/_component_template/t", `{"template":{"mappings":{}}}`, took(nil), simulates, 200, false},
		{"one that is refused", "PUT", "/_component_template/t", `{"template":{"mappings":{"odd":1}}}`, took(map[string]string{"refuse": "odd"}), simulates, 400, false},
		{"one that is not an object", "PUT", "/_component_template/t", `[`, took(nil), "", 0, true},
		{"a pipeline", "PUT", "/_ingest/pipeline/p", `{"processors":[]}`, took(nil), "POST /_ingest/pipeline/_simulate", 200, false},
		{"a pipeline that is refused", "PUT", "/_ingest/pipeline/p", `{"processors":[{"odd":{}}]}`, took(map[string]string{"refuse": "odd"}), "POST /_ingest/pipeline/_simulate", 400, false},
		{"a pipeline that is not an object", "PUT", "/_ingest/pipeline/p", `[`, took(nil), "", 0, true},
		{"all else", "PUT", "/_plugins/_ism/policies/p", `{}`, took(nil), "", 200, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			status, answer, err := (objects.DryRunCluster{Target: questioned{c.says, &asked}}).Do(t.Context(), c.method, c.path, nil, []byte(c.body))
			if status != c.status || (err != nil) != c.fails || strings.Join(asked, ", ") != c.asks {
				t.Errorf("status %d, %v; the target was asked %q", status, err, asked)
			}
			if c.status == 400 && !strings.Contains(string(answer), "mapper_parsing_exception") {
				t.Errorf("the target's words are lost: %s", answer)
			}
		})
	}
	for name, taken := range map[string]bool{
		"a": true, "a.b-c_d+e": true, strings.Repeat("a", 255): true, "": false, ".": false, "..": false, strings.Repeat("a", 256): false, "A": false, "_a": false, "-a": false, "+a": false, "a b": false, "a#b": false, `a"b`: false, "a:b": false,
	} {
		var asked []string
		err := objects.DryRunCluster{Target: questioned{took(nil), &asked}}.CreateIndex(t.Context(), name, nil)
		if errors.Is(err, fault.ErrRejected) == taken || (err == nil) != taken || taken != slices.Equal(asked, []string{simulates}) {
			t.Errorf("%q: %v, asked %q", name, err, asked)
		}
	}
}
