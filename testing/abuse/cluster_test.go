package abuse

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// cluster is as much of OpenSearch as the coordination of one node asks for. bulk answers bulk requests; nil: all
// items are taken.
type cluster struct {
	secret bool // it does not tell how long a request may be
	bulks  int  // requests
	bulk   func(w http.ResponseWriter, actions []string)
	held   *source // a document that it holds, alone; nil: nothing is read of it
	pages  int     // that were asked for

	mu   sync.Mutex
	docs map[string]string
	seq  int
}

func fakeCluster(t *testing.T) string {
	t.Helper()
	return serve(t, &cluster{})
}

func serve(t *testing.T, c *cluster) string {
	t.Helper()
	c.docs = map[string]string{}
	if c.bulk == nil {
		c.bulk = taken(false, func(op string, item map[string]any) (string, map[string]any) { return op, item })
	}
	s := httptest.NewServer(c)
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	return s.URL
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := parts[len(parts)-1]
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.URL.Path == "/":
		_, _ = io.WriteString(w, `{"version":{"distribution":"opensearch","number":"2.19.4"}}`)
	case r.Method == http.MethodHead:
	case last == "_bulk":
		c.bulks++
		c.answerBulk(w, r, b)
	case strings.Contains(r.URL.Path, "/_settings/") && r.URL.Query().Has("flat_settings"):
		var all []string
		for _, name := range strings.Split(parts[0], ",") {
			all = append(all, fmt.Sprintf(`%q:{"settings":{"index.uuid":"u","index.translog.durability":"REQUEST"}}`, name))
		}
		_, _ = io.WriteString(w, "{"+strings.Join(all, ",")+"}")
	case last == "_settings" || strings.Contains(r.URL.Path, "/_settings/"):
		fmt.Fprintf(w, `{%q:{"settings":{"index":{"uuid":"u","number_of_shards":"1"}}}}`, parts[0])
	case last == "_alias":
		_, _ = io.WriteString(w, `{}`)
	case last == "_mapping":
		fmt.Fprintf(w, `{%q:{"mappings":{}}}`, parts[0])
	case last == "point_in_time":
		_, _ = io.WriteString(w, `{"pit_id":"p"}`)
	case last == "_search" && c.held != nil:
		c.pages++
		_, _ = io.WriteString(w, `{"pit_id":"p","_shards":{"failed":0},"hits":{"hits":[`)
		if !strings.Contains(string(b), "search_after") {
			s := c.held
			_, _ = io.Copy(w, io.MultiReader(strings.NewReader(`{"_id":"big!","sort":[1],"_source":`+s.head), repeated(s.part, s.n), strings.NewReader(s.tail+"}")))
		}
		_, _ = io.WriteString(w, `]}}`)
	case last == "_search":
		_, _ = io.WriteString(w, `{"hits":{"total":{"value":0},"hits":[]},"_shards":{"failed":0,"total":1,"successful":1}}`)
	case last == "_count": // nothing before documents come, then more than any test sends
		fmt.Fprintf(w, `{"count":%d,"_shards":{"failed":0,"total":1,"successful":1}}`, min(c.bulks, 1)*1000000)
	case strings.HasSuffix(r.URL.Path, "/_stats/docs"):
		fmt.Fprintf(w, `{"_all":{"primaries":{"docs":{"count":%d}}},"_shards":{"failed":0,"total":1,"successful":1}}`, min(c.bulks, 1)*1000000)
	case r.URL.Path == "/_nodes/http" && c.secret:
		_, _ = io.WriteString(w, `{}`)
	case r.URL.Path == "/_nodes/http":
		_, _ = io.WriteString(w, `{"nodes":{"x":{"http":{"max_content_length_in_bytes":104857600}}}}`)
	case len(parts) > 2 && (parts[1] == "_doc" || parts[1] == "_create"):
		c.document(w, r.Method, parts[0]+"/"+parts[2], parts[1] == "_create", string(b))
	case len(parts) == 1 && r.Method == http.MethodGet && c.held != nil: // settings are asked for in one level
		fmt.Fprintf(w, `{%q:{"mappings":{},"settings":{"index.uuid":"u","index.number_of_shards":"1"},"aliases":{}}}`, parts[0])
	case len(parts) == 1 && r.Method == http.MethodGet:
		fmt.Fprintf(w, `{%q:{"mappings":{},"settings":{"index":{"uuid":"u"}},"aliases":{}}}`, parts[0])
	default:
		_, _ = io.WriteString(w, `{"acknowledged":true,"nodes":{"x":{"timestamp":`+fmt.Sprint(1700000000000)+`,"version":"2.19.4"}}}`)
	}
}

// document reads or writes one document; c.mu is held.
func (c *cluster) document(w http.ResponseWriter, method, key string, create bool, body string) {
	was, there := c.docs[key]
	switch {
	case method == http.MethodGet && !there:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"found":false}`)
	case method == http.MethodGet:
		fmt.Fprintf(w, `{"found":true,"_seq_no":%d,"_primary_term":1,"_source":%s}`, c.seq, was)
	case create && there:
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":{"type":"version_conflict_engine_exception"}}`)
	default:
		c.seq++
		c.docs[key] = body
		fmt.Fprintf(w, `{"result":"updated","_seq_no":%d,"_primary_term":1}`, c.seq)
	}
}

func (c *cluster) answerBulk(w http.ResponseWriter, r *http.Request, b []byte) {
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(strings.NewReader(string(b)))
		if err == nil {
			b, err = io.ReadAll(z)
		}
		if err != nil {
			return
		}
	}
	// Short documents are sent to their index, and do not name it.
	index := strings.Trim(strings.TrimSuffix(r.URL.Path, "/_bulk"), "/")
	var actions []string
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if i%2 == 0 {
			if op, rest, ok := strings.Cut(line, `":{"_id":`); ok && index != "" {
				line = fmt.Sprintf(`%s":{"_index":%q,"_id":%s`, op, index, rest)
			}
			actions = append(actions, line)
		}
	}
	c.bulk(w, actions)
}

// taken answers that every item was taken, after change has had its way with each.
func taken(errors bool, change func(op string, item map[string]any) (string, map[string]any)) func(http.ResponseWriter, []string) {
	return func(w http.ResponseWriter, actions []string) {
		items := []map[string]any{}
		for _, a := range actions {
			var sent map[string]map[string]any
			if json.Unmarshal([]byte(a), &sent) != nil {
				return
			}
			for op, meta := range sent {
				item := map[string]any{"_index": meta["_index"], "_id": meta["_id"], "status": 201}
				op, item = change(op, item)
				items = append(items, map[string]any{op: item})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"took": 1, "errors": errors, "items": items})
	}
}
