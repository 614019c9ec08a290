// Package serverless simulates a collection of Amazon OpenSearch Serverless in front of a real OpenSearch. It is stricter than AWS: it
// rejects everything that AWS does not document, and everything that AWS documents as having no effect.
//
// Sources:
//   - operations, and which of them are of search collections only: docs.aws.amazon.com/opensearch-service/latest/developerguide/serverless-genref.html
//   - point in time: …/serverless-pit.html
//   - shards, replicas and refresh intervals are not modifiable, refreshes every 10 s, no custom ids and upserts in time series and
//     vector search collections, x-amz-content-sha256: …/serverless-overview.html, opensearch-project/opensearch-go#374
//   - 404 without a body for other calls, as GET / and GET /_cluster/stats: opensearch-project/OpenSearch-Dashboards#5707, open-metadata/OpenMetadata#27599
//   - 404 for _refresh, and a new index that is not known everywhere at once: apache/flink-agents#678
//   - "Document ID is not supported in create/index operation request": langchain-ai/langchainjs#4346, opensearch-project/opensearch-spark#1012
//   - 402 service_quota_exceeded_exception while all compute units are in use: Sage-Bionetworks/Synapse-Repository-Services#5689
//   - the words that tell the type of a collection: OpenSearchClientFactory of opensearch-project/opensearch-migrations
package serverless

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/testing/signer"
)

// Types of collections, as AWS spells them.
const (
	Search       = "SEARCH"
	TimeSeries   = "TIMESERIES"
	VectorSearch = "VECTORSEARCH"
)

// Collection is a collection.
type Collection struct {
	Type string
	// Refresh is the refresh interval: counts are as of the last refresh.
	Refresh time.Duration
	// Unknown is the time for which a new index is unknown to the rest of the collection.
	Unknown time.Duration
	// Full is the number of bulk requests to reject because all compute units are in use.
	Full int

	next http.Handler

	mu      sync.Mutex
	created map[string]time.Time
	counts  map[string]counted // by path
	refused []string
}

// counted is a cached count.
type counted struct {
	at     time.Time
	answer []byte
}

// Start starts a collection in front of a cluster. It returns the server of the collection and the verifier of signatures, to which keys are
// added.
func (c *Collection) Start(region, cluster string) (*httptest.Server, *signer.Verifier, error) {
	to, err := url.Parse(cluster)
	if err != nil {
		return nil, nil, err
	}
	c.next = signer.Forward(to)
	c.created, c.counts = map[string]time.Time{}, map[string]counted{}
	verifier := &signer.Verifier{Region: region, Service: "aoss"}
	return httptest.NewServer(verifier.Handler(c)), verifier, nil
}

// Refused returns the rejected calls with the reasons.
func (c *Collection) Refused() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused)
}

// ServeHTTP answers a request whose signature was verified.
func (c *Collection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "aoss-amazon")
	body, err := plain(r)
	if err != nil {
		c.refuse(w, r, http.StatusBadRequest, "parse_exception", err.Error())
		return
	}
	operation := find(r, c.Type)
	if operation == "" {
		c.note(r, "no such operation")
		w.WriteHeader(http.StatusNotFound) // without a body
		return
	}
	for name := range r.URL.Query() {
		if !slices.Contains(parameters, name) {
			c.refuse(w, r, http.StatusBadRequest, "illegal_argument_exception", "request contains unrecognized parameter: ["+name+"]")
			return
		}
	}
	index, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case operation == "PUT <name>":
		if why := c.unfit(body); why != "" {
			c.refuse(w, r, http.StatusBadRequest, "illegal_argument_exception", why)
			return
		}
		c.mu.Lock()
		c.created[index] = time.Now()
		c.mu.Unlock()
	case strings.HasSuffix(operation, "_bulk"):
		if c.bulk(w, r, body) {
			return
		}
	case strings.HasSuffix(operation, "_settings") && r.Method != http.MethodGet:
		if why := c.unfit([]byte(`{"settings":` + string(body) + `}`)); why != "" {
			c.refuse(w, r, http.StatusBadRequest, "illegal_argument_exception", why)
			return
		}
	case strings.HasSuffix(operation, "_count"):
		c.count(w, r)
		return
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && c.unknown(index):
		fail(w, http.StatusNotFound, "index_not_found_exception", "no such index ["+index+"]")
		return
	}
	c.next.ServeHTTP(w, r)
}

// plain returns the decompressed body, and leaves the body readable.
func plain(r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	if r.Header.Get("Content-Encoding") != "gzip" {
		return raw, nil
	}
	in, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

// unfit returns why the body of an index is rejected; "" if it is accepted.
func (c *Collection) unfit(body []byte) string {
	var is struct {
		Settings map[string]any `json:"settings"`
		Mappings any            `json:"mappings"`
	}
	if len(body) > 0 && json.Unmarshal(body, &is) != nil {
		return "the body is not an index"
	}
	vectors := strings.Contains(string(body), `"knn_vector"`)
	for name := range flat("", is.Settings) {
		name = strings.TrimPrefix(name, "index.")
		vectors = vectors || name == "knn"
		if !slices.ContainsFunc(settings, func(s string) bool { return name == s || strings.HasPrefix(name, s+".") }) {
			return "setting [index." + name + "] is handled by the collection"
		}
	}
	if vectors && c.Type != VectorSearch {
		return "KNN features not supported on " + c.Type + " collection type"
	}
	if strings.Contains(string(body), `"dimension":-1`) {
		return "Dimension value must be greater than 0 for vector: v"
	}
	return ""
}

// flat returns the names of settings.
func flat(prefix string, in map[string]any) map[string]bool {
	all := map[string]bool{}
	for name, v := range in {
		if inner, ok := v.(map[string]any); ok {
			for n := range flat(prefix+name+".", inner) {
				all[n] = true
			}
			continue
		}
		all[prefix+name] = true
	}
	return all
}

// bulk answers a bulk request that is rejected as a whole, and reports whether it did.
func (c *Collection) bulk(w http.ResponseWriter, r *http.Request, body []byte) bool {
	c.mu.Lock()
	full := c.Full > 0
	if full {
		c.Full--
	}
	c.mu.Unlock()
	var items []map[string]any
	why := ""
	refuse := func(op, id string, status int, kind, reason string) {
		items = append(items, map[string]any{op: map[string]any{"_index": "", "_id": id, "status": status, "error": map[string]string{"type": kind, "reason": reason}}})
	}
	lines := bytes.Split(bytes.TrimRight(body, "\n"), []byte{'\n'})
	for i := 0; i < len(lines); i++ {
		var action map[string]struct {
			ID     *string `json:"_id"`
			Prefer any     `json:"if_seq_no"`
		}
		if err := json.Unmarshal(lines[i], &action); err != nil || len(action) != 1 {
			c.refuse(w, r, http.StatusBadRequest, "illegal_argument_exception", "Malformed action/metadata line")
			return true
		}
		for op, of := range action {
			id := ""
			if of.ID != nil {
				id = *of.ID
			}
			switch {
			case full:
				refuse(op, id, http.StatusPaymentRequired, "service_quota_exceeded_exception", "maximum OCU capacity reached")
			case c.Type != Search && op != "delete" && (id != "" || op == "update"):
				why = "Document ID is not supported in create/index operation request"
				refuse(op, id, http.StatusBadRequest, "illegal_argument_exception", why)
			}
			if op != "delete" {
				i++
			}
		}
	}
	if len(items) == 0 {
		return false
	}
	if why != "" {
		c.note(r, why)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"took": 0, "errors": true, "items": items})
	return true
}

// count returns the count as of the last refresh.
func (c *Collection) count(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	last, known := c.counts[r.URL.Path]
	c.mu.Unlock()
	if !known || time.Since(last.at) >= c.Refresh {
		refresh := httptest.NewRequest(http.MethodPost, strings.TrimSuffix(r.URL.Path, "/_count")+"/_refresh", nil)
		c.next.ServeHTTP(httptest.NewRecorder(), refresh)
		res := httptest.NewRecorder()
		c.next.ServeHTTP(res, r)
		if res.Code != http.StatusOK {
			fail(w, res.Code, "index_not_found_exception", "no such index")
			return
		}
		last = counted{time.Now(), res.Body.Bytes()}
		c.mu.Lock()
		c.counts[r.URL.Path] = last
		c.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(last.answer)
}

// unknown reports whether the index was created less than Unknown ago.
func (c *Collection) unknown(index string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, made := c.created[index]
	return made && time.Since(at) < c.Unknown
}

func (c *Collection) note(r *http.Request, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, fmt.Sprintf("%s %s: %s", r.Method, r.URL.RequestURI(), why))
}

func (c *Collection) refuse(w http.ResponseWriter, r *http.Request, status int, kind, reason string) {
	c.note(r, reason)
	fail(w, status, kind, reason)
}

// fail writes an error response in the format of OpenSearch.
func fail(w http.ResponseWriter, status int, kind, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	cause := map[string]any{"type": kind, "reason": reason}
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"root_cause": []any{cause}, "type": kind, "reason": reason}, "status": status})
}
