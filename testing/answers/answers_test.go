package answers

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/rest"
)

const mapping = `{"i":{"mappings":{"properties":{"k":{"type":"keyword"},"t":{"type":"text"},"f":{"type":"flattened"},
"n":{"type":"nested","properties":{"v":{"type":"long"}}}}}}}`

func TestRecordAsksForEveryFieldAndItsValues(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(mapping))
			return
		}
		asked, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var responses []string
		for i, line := range strings.Split(strings.TrimSpace(string(asked)), "\n") {
			switch {
			case i%2 == 0:
			case strings.Contains(line, `"nested":{"nested"`):
				responses = append(responses, `{"hits":{"hits":[{"_id":"b"},{"_id":"a"}]},"aggregations":{"nested":{"terms":{"buckets":[{"key":1},{"key":9007199254740993}]},"s":{"sum":0.30000000000000004}}}}`)
			case strings.Contains(line, `"aggs"`):
				responses = append(responses, `{"hits":{"hits":[]},"aggregations":{"terms":{"buckets":[{"key":5,"key_as_string":"five"}]}}}`)
			default:
				responses = append(responses, `{"hits":{"hits":[]}}`)
			}
		}
		_, _ = w.Write([]byte(`{"responses":[` + strings.Join(responses, ",") + `]}`))
	}))
	defer server.Close()
	got, err := Record(t.Context(), rest.Client{URL: server.URL}, "i")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"match_all":{}}`, `{"exists":{"field":"k"}}`, `{"nested":{"path":"n","query":{"exists":{"field":"n.v"}}}}`, `{"exists":{"field":"t"}}`,
		`{"match":{"t":"quick"}}`, `{"match":{"t":"zeta"}}`, `{"match":{"t":"alpha"}}`, `{"match":{"t":"text"}}`,
		`{"term":{"k":"five"}}`, `{"term":{"k":"five"}}`, `{"range":{"k":{"gte":"five","lt":"five"}}}`,
		`{"nested":{"path":"n","query":{"term":{"n.v":1}}}}`, `{"nested":{"path":"n","query":{"term":{"n.v":9007199254740993}}}}`,
		`{"nested":{"path":"n","query":{"range":{"n.v":{"gte":1,"lt":9007199254740993}}}}}`,
	}
	for i, s := range got {
		var body struct{ Query json.RawMessage }
		if err := json.Unmarshal(s.Body, &body); err != nil || i >= len(want) || string(body.Query) != want[i] {
			t.Errorf("search %d: %s, %v", i, body.Query, err)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d searches, want %d", len(got), len(want))
	}
	if n := got[2]; strings.Join(n.IDs, "") != "ab" || string(n.Aggregations) != `{"nested":{"s":{"sum":3.00000000000e-01},"terms":{"buckets":[{"key":1},{"key":9007199254740993}]}}}` {
		t.Errorf("%+v, %s", n.IDs, n.Aggregations)
	}

	file := filepath.Join(t.TempDir(), "x.json")
	if err := Save(file, got); err != nil {
		t.Fatal(err)
	}
	again, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if faults := Differ(got, again); faults != nil {
		t.Errorf("%q", faults)
	}
	again[0].IDs, again[1].Aggregations = []string{"other"}, nil
	if faults := Differ(got, again); len(faults) != 2 {
		t.Errorf("%q", faults)
	}
	if faults := Differ(got, again[1:]); len(faults) != 1 {
		t.Errorf("%q", faults)
	}
}

func TestARefusedSearchIsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"responses":[{"error":{"reason":"no such field"}}]}`))
	}))
	defer server.Close()
	if _, err := Ask(t.Context(), rest.Client{URL: server.URL}, []Search{{Index: "i", Body: json.RawMessage(`{}`)}}); err == nil || !strings.Contains(err.Error(), "no such field") {
		t.Errorf("%v", err)
	}
}
