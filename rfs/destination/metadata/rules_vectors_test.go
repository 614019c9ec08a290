package metadata

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

var (
	os21  = target.Version{Distribution: "opensearch", Number: "2.1.0", Major: 2, Minor: 1}
	os380 = target.Version{Distribution: "opensearch", Number: "3.8.0", Major: 3, Minor: 8}
	aoss  = target.Version{Distribution: "opensearch", Number: "Serverless", Major: 2, Minor: 11, Collection: target.VectorCollection}
)

func TestVectorsAreThoseOfTheNeighbourPlugin(t *testing.T) {
	for _, c := range []struct {
		name, created, settings, in, want, knn string
		v                                      target.Version
	}{
		{"cosine with options", "8_000_000", "", `{"type":"dense_vector","dims":3,"index":true,"similarity":"cosine","index_options":{"type":"int8_hnsw","m":16,"ef_construction":100}}`,
			`{"type":"knn_vector","dimension":3,"method":{"name":"hnsw","engine":"lucene","space_type":"cosinesimil","parameters":{"m":16,"ef_construction":100}}}`, "true", os219},
		{"dot product", "8500003", "", `{"type":"dense_vector","dims":3,"similarity":"dot_product"}`, `{"type":"knn_vector","dimension":3,"method":{"name":"hnsw","engine":"lucene","space_type":"innerproduct"}}`, "true", os380},
		{"before the engine of Lucene", "8500003", "", `{"type":"dense_vector","dims":3,"similarity":"l2_norm"}`, `{"type":"knn_vector","dimension":3,"method":{"name":"hnsw","engine":"nmslib","space_type":"l2"}}`, "true", os21},
		{"indexed by default since 8.11", "8500003", "", `{"type":"dense_vector","dims":3}`, `{"type":"knn_vector","dimension":3,"method":{"name":"hnsw","engine":"lucene","space_type":"cosinesimil"}}`, "true", os219},
		{"not indexed by default before", "7170099", "", `{"type":"dense_vector","dims":3}`, `{"type":"knn_vector","dimension":3}`, "", os219},
		{"not indexed", "8500003", "", `{"type":"dense_vector","dims":3,"index":false}`, `{"type":"knn_vector","dimension":3}`, "", os219},
		{"bytes", "8500003", "", `{"type":"dense_vector","dims":3,"element_type":"byte"}`, `{"type":"knn_vector","dimension":3,"data_type":"byte","method":{"name":"hnsw","engine":"lucene","space_type":"cosinesimil"}}`, "true", os219},
		{"bytes on a target without", "8500003", "", `{"type":"dense_vector","dims":3,"element_type":"byte"}`, `{"type":"object","enabled":false}`, "", os21},
		{"bits", "8500003", "", `{"type":"dense_vector","dims":64,"element_type":"bit","similarity":"l2_norm"}`, `{"type":"knn_vector","dimension":64,"data_type":"binary","method":{"name":"hnsw","engine":"faiss","space_type":"hamming"}}`, "true", os219},
		{"dimensions unknown yet", "8500003", "", `{"type":"dense_vector"}`, `{"type":"object","enabled":false}`, "", os219},
		{"nmslib is gone", "136000099", `"true"`, `{"type":"knn_vector","dimension":2,"method":{"name":"hnsw","engine":"nmslib","space_type":"l2"}}`, `{"type":"knn_vector","dimension":2,"method":{"name":"hnsw","engine":"faiss","space_type":"l2"}}`, "true", os380},
		{"nmslib stays before", "136000099", `"true"`, `{"type":"knn_vector","dimension":2,"method":{"name":"hnsw","engine":"nmslib","space_type":"l2"}}`, `{"type":"knn_vector","dimension":2,"method":{"name":"hnsw","engine":"nmslib","space_type":"l2"}}`, "true", os219},
		{"a space of nmslib only", "136000099", `"true"`, `{"type":"knn_vector","dimension":2,"method":{"name":"hnsw","engine":"nmslib","space_type":"l1"}}`, `{"type":"knn_vector","dimension":2,"method":{"name":"hnsw","engine":"faiss","space_type":"l2"}}`, "true", os380},
		{"a vector in a collection", "8500003", "", `{"type":"dense_vector","dims":3}`, `{"type":"knn_vector","dimension":3,"method":{"name":"hnsw","engine":"faiss","space_type":"cosinesimil"}}`, "true", aoss},
		{"lucene in a collection", "136000099", `"true"`, `{"type":"knn_vector","dimension":2,"method":{"name":"hnsw","engine":"lucene","space_type":"l2"}}`, `{"type":"knn_vector","dimension":2,"method":{"name":"hnsw","engine":"faiss","space_type":"l2"}}`, "true", aoss},
		{"method from settings in a collection", "136000099", `"true","index.knn.space_type":"l2"`, `{"type":"knn_vector","dimension":2}`, `{"type":"knn_vector","dimension":2,"method":{"name":"hnsw","engine":"faiss","space_type":"l2"}}`, "true", aoss},
		{"method from settings", "136000099", `"true","index.knn.space_type":"cosinesimil","index.knn.algo_param.m":"8","index.knn.algo_param.ef_search":"9"`, `{"type":"knn_vector","dimension":2}`,
			`{"type":"knn_vector","dimension":2,"method":{"name":"hnsw","engine":"faiss","space_type":"cosinesimil","parameters":{"m":8}}}`, "true", os380},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := map[string]string{"index.version.created": c.created}
			if c.settings != "" {
				if err := json.Unmarshal([]byte(`{"index.knn":`+c.settings+`}`), &settings); err != nil {
					t.Fatal(err)
				}
			}
			if c.created == "8_000_000" {
				settings["index.version.created"] = "8000099"
			}
			body, _, err := Convert(c.v, Wanted{Name: "i", Index: Index{Settings: settings, Mappings: []Mapping{{"_doc", json.RawMessage(`{"properties":{"f":` + c.in + `}}`)}}}})
			if err != nil {
				t.Fatal(err)
			}
			got := tree(t, body)
			field := got["mappings"].(map[string]any)["properties"].(map[string]any)["f"]
			if want := tree(t, []byte(c.want)); fmt.Sprint(field) != fmt.Sprint(want) {
				t.Errorf("got %v, want %v", field, want)
			}
			s := got["settings"].(map[string]any)
			if knn, _ := s["index.knn"].(string); knn != c.knn || s["index.knn.space_type"] != nil {
				t.Errorf("settings %v", s)
			}
		})
	}
}

func TestATargetWithoutTheNeighbourPluginKeepsVectorsInDocuments(t *testing.T) {
	l := NewUnsupported()
	for _, reason := range []string{"unknown setting [index.knn] please check that any required plugins are installed", "No handler for type [knn_vector] declared on field [f]"} {
		if !l.Record(&fault.StatusError{Status: http.StatusBadRequest, Reason: reason}) {
			t.Fatal(reason)
		}
	}
	w := Wanted{Name: "i", Index: Index{Mappings: []Mapping{{"_doc", json.RawMessage(`{"properties":{"f":{"type":"dense_vector","dims":3,"similarity":"cosine"}}}`)}}}}
	done, err := ConvertFor(os219, w, l)
	if err != nil || string(done.Body) != `{"mappings":{"properties":{"f":{"enabled":false,"type":"object"}}},"settings":{}}` {
		t.Errorf("%s, %v", done.Body, err)
	}
	if len(done.Changes) != 1 || done.Changes[0].Rule != "dense-vector" || !done.Changes[0].Loses() {
		t.Errorf("%+v", done.Changes)
	}
}

func TestTypesWithoutAnEqualKeepWhatCanBeFound(t *testing.T) {
	for _, c := range []struct{ in, want, rule string }{
		{`{"type":"histogram","ignore_malformed":true}`, `{"type":"object","dynamic":false,"properties":{"values":{"type":"double","ignore_malformed":true},"counts":{"type":"long","ignore_malformed":true}}}`, "histogram"},
		{`{"type":"aggregate_metric_double","metrics":["min","max"],"default_metric":"max"}`, `{"type":"object","dynamic":false,"properties":{"min":{"type":"double"},"max":{"type":"double"}}}`, "aggregate-metric"},
		{`{"type":"aggregate_metric_double","metrics":["min"],"default_metric":"min","ignore_malformed":true}`, `{"type":"object","enabled":false}`, "aggregate-metric"},
		{`{"type":"semantic_text","inference_id":"e"}`, `{"type":"object","enabled":false}`, "semantic-text"},
		{`{"type":"sparse_vector"}`, `{"type":"object","enabled":false}`, "sparse-vector"},
		{`{"type":"version","meta":{"a":"b"}}`, `{"type":"keyword"}`, "version-type"},
		{`{"type":"keyword","script":{"source":"emit('a')"},"on_script_error":"fail"}`, `{"type":"keyword"}`, "script-field"},
		{`{"type":"text","boost":2}`, `{"type":"text"}`, "field-boost"},
	} {
		done, err := ConvertIndex(os219, Wanted{Name: "i", Index: Index{Mappings: []Mapping{{"_doc", json.RawMessage(`{"properties":{"f":` + c.in + `}}`)}}}})
		if err != nil {
			t.Fatal(err)
		}
		field := tree(t, done.Body)["mappings"].(map[string]any)["properties"].(map[string]any)["f"]
		if want := tree(t, []byte(c.want)); fmt.Sprint(field) != fmt.Sprint(want) {
			t.Errorf("%s: %v", c.in, field)
		}
		if len(done.Changes) != 1 || done.Changes[0].Rule != c.rule || !done.Changes[0].Loses() {
			t.Errorf("%s: %+v", c.in, done.Changes)
		}
	}
}

func TestACodecThatTheTargetRefusesGoesWithItsLevel(t *testing.T) {
	w := Wanted{Name: "i", Index: Index{Settings: map[string]string{"index.codec": "zstd", "index.codec.compression_level": "5"}}}
	l := NewUnsupported()
	for _, want := range []string{`{"settings":{"index.codec":"zstd","index.codec.compression_level":"5"}}`, `{"settings":{}}`} {
		done, err := ConvertFor(os219, w, l)
		if err != nil || string(done.Body) != want {
			t.Errorf("%s, %v", done.Body, err)
		}
		l.Record(&fault.StatusError{Status: http.StatusBadRequest, Reason: "unknown value for [index.codec] must be one of [default, lz4, best_compression, zlib] but was: zstd"})
	}
}
