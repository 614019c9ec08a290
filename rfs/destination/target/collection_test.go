package target

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// collectionOf returns the client of a collection that answers with handle, and what was asked of it.
func collectionOf(t *testing.T, handle http.HandlerFunc) (*Client, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.URL.Path)
		mu.Unlock()
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	awsKeys(t, accessKey, secretKey, "")
	c, err := New(t.Context(), Config{URL: server.URL, SigV4: &SigV4{Region: "eu-west-1", Service: "aoss"}})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
}

func TestClient_RecognizesTypesOfCollections(t *testing.T) {
	for _, c := range []struct {
		status int
		answer string
		want   Collection
		chosen bool
		err    string
	}{
		{400, `{"error":{"type":"x","reason":"KNN features not supported on SEARCH collection type"}}`, SearchCollection, false, ""},
		{400, `{"error":{"type":"x","reason":"KNN features not supported on TIMESERIES collection type"}}`, TimeSeriesCollection, true, ""},
		{400, `{"error":{"type":"mapper_parsing_exception","reason":"Failed to parse mapping","caused_by":{"type":"y","reason":"Dimension value must be greater than 0 for vector: v"}}}`, VectorCollection, true, ""},
		{403, `{"message":"Forbidden"}`, "", false, "aoss:CreateIndex"},
		{400, `{"error":{"type":"x","reason":"something new"}}`, "", false, "not among those that rfsd knows"},
		{200, `{"acknowledged":true}`, "", false, "remove it"},
	} {
		client, asked := collectionOf(t, answer(c.status, c.answer))
		v, err := client.Info(t.Context())
		if v.Collection != c.want || v.ChoosesIDs() != c.chosen || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v", c.answer, v, err)
		}
		if err == nil {
			if again, err := client.Info(t.Context()); err != nil || again != v || len(asked()) != 1 {
				t.Errorf("%s: asked again: %+v, %v, %q", c.answer, again, err, asked())
			}
		}
	}
}

func TestClient_SendsNothingThatCollectionsDoNotAnswer(t *testing.T) {
	client, asked := collectionOf(t, answer(200, `{}`))
	for _, call := range []string{
		"GET /", "GET /_cluster/health", "GET /_cluster/settings", "GET /_nodes/stats/fs", "POST /a/_refresh", "GET /a/_stats/docs", "PUT /a/_settings", "PUT /_template/t",
		"PUT /_ingest/pipeline/p", "PUT /_scripts/s", "GET /_data_stream/d", "GET /_plugins/_ism/policies", "POST /_mget", "GET /a/_alias", "PUT /.rfs_control", "GET /_all", "POST /_search/scroll", "POST /a/b/_bulk",
	} {
		method, path, _ := strings.Cut(call, " ")
		if _, _, err := client.Do(t.Context(), method, path, nil, nil); !errors.Is(err, ErrNotAnswered) || !errors.Is(err, fault.ErrRejected) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if err := client.Refresh(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if len(asked()) > 0 {
		t.Errorf("asked %q", asked())
	}
	for _, call := range []string{"HEAD /a", "GET /a,b", "PUT /a", "POST /_bulk", "POST /a/_bulk", "GET /a/_count", "POST /_aliases", "PUT /_index_template/t", "GET /a/_settings/index.uuid"} {
		method, path, _ := strings.Cut(call, " ")
		if status, _, err := client.Do(t.Context(), method, path, nil, nil); err != nil || status != 200 {
			t.Errorf("%s: %d, %v", call, status, err)
		}
	}
}

func TestAppendWithoutIDs(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"plain", `{"index":{"_index":"a","_id":"1"}}` + "\n" + `{"_id":"x"}` + "\n", `{"index":{"_index":"a"}}` + "\n" + `{"_id":"x"}` + "\n"},
		{"routing and escapes", `{"index":{"_index":"a","_id":"q\"\\,\"_id\":","routing":"r"}}` + "\n{}\n", `{"index":{"_index":"a","routing":"r"}}` + "\n{}\n"},
		{"two", `{"index":{"_index":"a","_id":"1"}}` + "\n{}\n" + `{"index":{"_index":"b","_id":"2"}}` + "\n{}\n", `{"index":{"_index":"a"}}` + "\n{}\n" + `{"index":{"_index":"b"}}` + "\n{}\n"},
		{"a deletion", `{"delete":{"_index":"a","_id":"1"}}` + "\n", ""},
		{"op create", `{"create":{"_index":"a","_id":"1"}}` + "\n{}\n", ""},
		{"no id", `{"index":{"_index":"a"}}` + "\n{}\n", ""},
		{"no source", `{"index":{"_index":"a","_id":"1"}}` + "\n{}", ""},
	} {
		got, err := appendWithoutIDs(nil, []byte(c.body))
		if (err == nil) != (c.want != "") || err == nil && string(got) != c.want {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
}

func TestClient_LeavesIDsToCollectionsThatChooseThem(t *testing.T) {
	var body strings.Builder
	client, _ := collectionOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			answer(400, `{"error":{"type":"x","reason":"KNN features not supported on TIMESERIES collection type"}}`)(w, r)
			return
		}
		b := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(b)
		body.Write(b)
		answer(200, `{"errors":false,"items":[{"index":{"_index":"a","_id":"chosen","_version":1,"result":"created","status":201}}]}`)(w, r)
	})
	told, err := client.Send(t.Context(), []byte(`{"index":{"_index":"a","_id":"1"}}`+"\n{}\n"), 1)
	if err != nil || len(told.Refused)+len(told.Replaced) > 0 || body.String() != `{"index":{"_index":"a"}}`+"\n{}\n" {
		t.Errorf("%+v, %v; sent %s", told, err, body.String())
	}
	long := `{"index":{"_index":"a","_id":"1"}}` + "\n" + strings.Repeat("x", longBody) + "\n"
	if _, err := client.Send(t.Context(), []byte(long), 1); !errors.Is(err, bulk.ErrTooLarge) {
		t.Errorf("a long body: %v", err)
	}
}

// TestVersion_CheckIDs: a collection that chooses ids is only written to by permission, and never by comparing ids.
func TestVersion_CheckIDs(t *testing.T) {
	for _, c := range []struct {
		name     string
		kind     Collection
		permit   bool
		existing bulk.Existing
		refusal  string
		warns    bool
	}{
		{"a cluster", NoCollection, false, bulk.Keep, "", false},
		{"ids are kept", SearchCollection, false, bulk.Keep, "", false},
		{"not permitted", TimeSeriesCollection, false, "", "permit it (--allow-duplicates)", false},
		{"permitted", VectorCollection, true, bulk.Overwrite, "", true},
		{"ids are compared", TimeSeriesCollection, true, bulk.Keep, "--existing-documents keep compares ids", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			warning, err := Version{Collection: c.kind}.CheckIDs(c.permit, c.existing)
			if (err == nil) != (c.refusal == "") || err != nil && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.refusal)) || (warning != "") != c.warns {
				t.Errorf("%q, %v", warning, err)
			}
		})
	}
}

func TestConfig_ClusterOnly(t *testing.T) {
	for _, c := range []struct {
		name, url string
		signed    bool
		refuses   bool
	}{
		{"a cluster", "https://127.0.0.1:9200", false, false},
		{"a domain", "https://x.eu-west-1.es.amazonaws.com", true, false},
		{"a collection", "https://x.eu-west-1.aoss.amazonaws.com", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := Config{URL: c.url, Role: "target"}
			if c.signed {
				conf.SigV4 = &SigV4{Region: "eu-west-1"}
			}
			err := conf.ClusterOnly("rfsd redrive")
			if (err != nil) != c.refuses || err != nil && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "rfsd redrive cannot be used with a collection")) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestConfig_CheckUses(t *testing.T) {
	for _, c := range []struct {
		name  string
		uses  Uses
		words string // of the refusal; "": none
	}{
		{"documents", Uses{}, ""},
		{"the state of the work", Uses{State: true}, "--coordinator-bucket, --coordinator-host or --coordinator-file"},
		{"comparisons", Uses{Compare: true}, "comparisons (--verify) cannot be used"},
		{"measurements", Uses{Measure: true}, "--trial-measure 0s"},
	} {
		for _, host := range []string{"es", "aoss"} {
			t.Run(c.name+"/"+host, func(t *testing.T) {
				err := Config{URL: "https://x.eu-west-1." + host + ".amazonaws.com", Role: "target", SigV4: &SigV4{Region: "eu-west-1"}}.CheckUses(c.uses)
				if refuses := host == "aoss" && c.words != ""; refuses != (err != nil) || err != nil && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.words)) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}
