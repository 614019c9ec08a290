package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		answer string
		want   []string // "" for none
		err    error
	}{
		"the bytes of the target, in the order of the keys": {200, `{"docs":[{"found":true,"_source":{"n":1.0, "n":1}},{"found":false},{"found":true}]}`, []string{`{"n":1.0, "n":1}`, "", ""}, nil},
		"a byte order mark and comments":                    {200, `{"docs":[{"_id":"1","found":true,"_source":` + "\xEF\xBB\xBF" + `{"n":1}},{"_source":{"a":/* } */1} ,"found":true},{"found":false,"_source":{}}]}`, []string{"\xEF\xBB\xBF{\"n\":1}", "{\"a\":/* } */1} ", ""}, nil},
		"a routing and a version":                           {200, `{"docs":[{"_version":7,"found":true,"_routing":"r\u0031","_source":{}},{"_routing":"r","found":false},{"found":true,"_source":{}}]}`, []string{"r1{} of version 7", "", "{}"}, nil},
		"an answer that ends early":                         {200, `{"docs":[{"found":true,"_source":{"a":`, nil, fault.ErrUnavailable},
		"an index that is gone is not a document":           {200, `{"docs":[{"error":{"type":"index_not_found_exception"}},{"found":true,"_source":{}},{"found":false}]}`, []string{"", "{}", ""}, nil},
		"an answer for fewer documents":                     {200, `{"docs":[{"found":true,"_source":{}}]}`, nil, fault.ErrUnavailable},
		"no permission":                                     {403, `{"error":{"type":"security_exception","reason":"no"}}`, nil, fault.ErrConfig},
		"overloaded":                                        {429, `{"error":{"type":"es_rejected_execution_exception","reason":"busy"}}`, nil, fault.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				if want := `{"docs":[{"_index":"a","_id":"1","routing":"r"},{"_index":"a","_type":"t","_id":"2"},{"_index":"b","_id":"3"}]}`; r.URL.Path != "/_mget" || string(b) != want {
					t.Errorf("%s %s", r.URL.Path, b)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			})
			got, err := client.Find(t.Context(), []bulk.Key{{Index: "a", ID: "1", Routing: "r"}, {Index: "a", Type: "t", ID: "2"}, {Index: "b", ID: "3"}})
			if !errors.Is(err, c.err) || (err != nil) != (c.err != nil) {
				t.Fatal(err)
			}
			var texts []string
			for _, x := range got {
				text := x.Routing + string(x.Source)
				if x.Version != 0 {
					text += fmt.Sprintf(" of version %d", x.Version)
				}
				texts = append(texts, text)
				if x.There != strings.Contains(text, "{") && !strings.HasSuffix(name, "of the keys") {
					t.Errorf("%q is there: %v", text, x.There)
				}
			}
			if !slices.Equal(texts, c.want) {
				t.Errorf("%q, want %q", texts, c.want)
			}
		})
	}
}

// TestSourcesThatAreTooLongTogether asks for documents that no answer may hold: they are asked for in smaller groups, and
// one that is too long by itself counts as not shown.
func TestSourcesThatAreTooLongTogether(t *testing.T) {
	most := 0
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Docs []bulk.Key }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		most = max(most, len(asked.Docs))
		if len(asked.Docs) > 1 || asked.Docs[0].ID == "2" {
			_, _ = io.WriteString(w, "["+strings.Repeat("0,", maxValues)+"0]")
			return
		}
		_, _ = io.WriteString(w, `{"docs":[{"found":true,"_source":{"id":"`+asked.Docs[0].ID+`"}}]}`)
	})
	got, err := client.Find(t.Context(), []bulk.Key{{Index: "a", ID: "1"}, {Index: "a", ID: "2"}, {Index: "a", ID: "3"}})
	if err != nil || len(got) != 3 || string(got[0].Source) != `{"id":"1"}` || got[1].Source != nil || string(got[2].Source) != `{"id":"3"}` || most != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRefusalsNameTheIndexBehindAName(t *testing.T) {
	client := serve(t, answer(200, `{"took":1,"errors":true,"items":[{"create":{"_index":"s","_id":"1","status":409,"error":{"type":"version_conflict_engine_exception","reason":"r","index":".ds-s-000002"}}},`+
		`{"create":{"_index":"s","_id":"2","status":400,"error":"a text"}}]}`))
	res, err := client.Send(t.Context(), []byte("{\"create\":{\"_index\":\"s\",\"_id\":\"1\"}}\n{}\n{\"create\":{\"_index\":\"s\",\"_id\":\"2\"}}\n{}\n"), 2)
	if err != nil || len(res.Refused) != 2 || res.Refused[0].Index != ".ds-s-000002" || res.Refused[1].Index != "" {
		t.Errorf("%+v, %v", res, err)
	}
}
