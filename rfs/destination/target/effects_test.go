package target

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"testing"
)

func TestClient_PipelineEffects(t *testing.T) {
	for _, c := range []struct {
		name, processors string
		want             []string
	}{
		{"harmless ones", `{"set":{"field":"a","value":1}},{"lowercase":{"field":"b"}},{"script":{"source":"ctx.a = 1"}}`, nil},
		{"dropping", `{"drop":{}}`, []string{"drop drops documents"}},
		{"dropping some", `{"set":{"field":"a","value":1}},{"drop":{"if":"ctx.level == 'debug'"}}`, []string{"drop drops documents under a condition"}},
		{"another id, index and routing", `{"set":{"field":"_id","value":"x"}},{"rename":{"field":"a","target_field":"_index"}},{"remove":{"field":"_routing"}}`,
			[]string{"set changes _id", "rename changes _index", "remove changes _routing"}},
		{"other indices", `{"reroute":{"dataset":"x"}},{"date_index_name":{"field":"d","date_rounding":"M"}}`,
			[]string{"reroute gives documents another index", "date_index_name gives documents another index"}},
		{"scripts", `{"script":{"source":"ctx._index = 'x'"}},{"script":{"id":"kept"}}`, []string{"script uses _index", "script runs the stored script kept"}},
		{"a pipeline that does not exist", `{"pipeline":{"name":"none"}}`, []string{"pipeline runs none"}},
		{"a pipeline that drops documents", `{"pipeline":{"name":"outer","if":"ctx.a == 1"}}`,
			[]string{"pipeline outer under a condition: pipeline inner: drop drops documents"}},
		{"a harmless pipeline", `{"pipeline":{"name":"harmless"}}`, nil},
		{"itself", `{"pipeline":{"name":"p"}},{"drop":{}}`, []string{"drop drops documents"}},
		{"within another", `{"foreach":{"field":"a","processor":{"set":{"field":"_id","value":"x"}}}}`, []string{"set changes _id"}},
		{"after a failure of a processor", `{"set":{"field":"a","value":1,"on_failure":[{"drop":{}},{"set":{"field":"_index","value":"bad","on_failure":[{"set":{"field":"_id","value":"x"}}]}}]}}`,
			[]string{"after a failure: drop drops documents", "after a failure: set changes _index", "after a failure: after a failure: set changes _id"}},
		{"after a failure of a pipeline", `{"pipeline":{"name":"recovering"}}`, []string{"pipeline recovering: after a failure: drop drops documents"}},
		{"fields of other types", `{"remove":{"field":["a","b"]}},{"drop":7}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			pipelines := map[string]string{
				"p": c.processors, "outer": `{"pipeline":{"name":"inner"}}`, "inner": `{"set":{"field":"a","value":1}},{"drop":{}}`, "harmless": `{"set":{"field":"a","value":1}}`,
			}
			is, err := serve(t, func(w http.ResponseWriter, r *http.Request) {
				name := path.Base(r.URL.Path)
				if name == "recovering" {
					answer(200, `{"recovering":{"processors":[],"on_failure":[{"drop":{}}]}}`)(w, r)
					return
				}
				if processors, there := pipelines[name]; there {
					answer(200, fmt.Sprintf(`{%q:{"processors":[%s]}}`, name, processors))(w, r)
					return
				}
				answer(404, "{}")(w, r)
			}).PipelineEffects(t.Context(), "p")
			if err != nil || !slices.Equal(is, c.want) {
				t.Errorf("%q, %v, want %q", is, err, c.want)
			}
		})
	}
}
