package target

import (
	"fmt"
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
		{"another pipeline", `{"pipeline":{"name":"more"}}`, []string{"pipeline runs more"}},
		{"within another", `{"foreach":{"field":"a","processor":{"set":{"field":"_id","value":"x"}}}}`, []string{"set changes _id"}},
		{"fields of other types", `{"remove":{"field":["a","b"]}},{"drop":7}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			is, err := serve(t, answer(200, fmt.Sprintf(`{"p":{"processors":[%s]}}`, c.processors))).PipelineEffects(t.Context(), "p")
			if err != nil || !slices.Equal(is, c.want) {
				t.Errorf("%q, %v, want %q", is, err, c.want)
			}
		})
	}
}
