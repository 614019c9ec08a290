// Package fakecluster implements in memory the part of OpenSearch that commands of rfsd and rfsctl use: indices with shards and sequence
// numbers, aliases, templates, pipelines that drop documents, counts, and point-in-time searches. Documents are visible immediately. It
// rejects unknown requests and lists them in Unknown, so that no test passes by accident.
package fakecluster

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// version is the reported version.
const version = "2.19.4"

// Cluster is a cluster of one node. Use New: the zero value is not ready.
type Cluster struct {
	mu            sync.Mutex
	before, after func(r *http.Request) error
	uuids         int
	indices       map[string]*index
	objects       map[string]json.RawMessage // templates, pipelines and scripts by path
	readings      map[string]*reading
	unknown       []string
}

// New returns a cluster without indices.
func New() *Cluster {
	return &Cluster{indices: map[string]*index{}, objects: map[string]json.RawMessage{}, readings: map[string]*reading{}}
}

// Watch calls before ahead of the effect of each later request, and after between its effect and its response. An error breaks the
// connection. Both may be nil.
func (c *Cluster) Watch(before, after func(r *http.Request) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.after = before, after
}

// Unknown returns the requests that the cluster refused because it does not know them.
func (c *Cluster) Unknown() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.unknown)
}

// answer is a response: a status and a body, which is encoded unless it is a json.RawMessage.
type answer struct {
	status int
	body   any
}

func ok(body any) answer { return answer{http.StatusOK, body} }

type object = map[string]any

var acknowledged = object{"acknowledged": true}

// failure returns an error response in the form of a cluster.
func failure(status int, typ, reason string, more ...any) answer {
	cause := object{"type": typ, "reason": reason}
	for i := 0; i+1 < len(more); i += 2 {
		if key, is := more[i].(string); is {
			cause[key] = more[i+1]
		}
	}
	return answer{status, object{"error": object{"type": typ, "reason": reason, "root_cause": []any{cause}, "index": cause["index"]}, "status": status}}
}

func noIndex(name string) answer {
	return failure(http.StatusNotFound, "index_not_found_exception", "no such index ["+name+"]", "index", name)
}

// ServeHTTP answers one request.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		in = z
	}
	body, err := io.ReadAll(in)
	if err != nil {
		return
	}
	c.mu.Lock()
	before, after := c.before, c.after
	c.mu.Unlock()
	if before != nil {
		if err := before(r); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	c.mu.Lock()
	a := c.serve(r, body)
	c.mu.Unlock()
	if after != nil {
		if err := after(r); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	b, raw := a.body.(json.RawMessage)
	if !raw {
		if b, err = encode(a.body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b)
	}
}

// encode returns v as JSON; sources inside keep their bytes as far as JSON allows it.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// serve answers one request. The caller holds c.mu.
func (c *Cluster) serve(r *http.Request, body []byte) answer {
	var parts []string
	for part := range strings.SplitSeq(strings.Trim(r.URL.EscapedPath(), "/"), "/") {
		name, err := url.PathUnescape(part)
		if err != nil {
			return failure(http.StatusBadRequest, "illegal_argument_exception", err.Error())
		}
		parts = append(parts, name)
	}
	q := r.URL.Query()
	var a answer
	var known bool
	switch {
	case parts[0] == "" || strings.HasPrefix(parts[0], "_") && parts[0] != "_all":
		a, known = c.whole(r.Method, parts, q, body)
	case len(parts) == 1:
		a, known = c.one(r.Method, parts[0], q, body)
	default:
		a, known = c.within(r.Method, parts[0], parts[1:], q, body)
	}
	if !known {
		c.unknown = append(c.unknown, r.Method+" "+r.URL.RequestURI()+" "+string(body[:min(len(body), 200)]))
		return failure(http.StatusBadRequest, "illegal_argument_exception", "the fake cluster does not know "+r.Method+" "+r.URL.Path)
	}
	return a
}

// objectsAt are the paths of objects that are stored unchanged, with the name of the list in responses ("": by name).
var objectsAt = map[string]struct{ list, item string }{
	"_template":              {},
	"_index_template":        {"index_templates", "index_template"},
	"_component_template":    {"component_templates", "component_template"},
	"_ingest/pipeline":       {},
	"_scripts":               {},
	"_plugins/_ism/policies": {},
}

// whole answers requests without an index in their path.
func (c *Cluster) whole(method string, parts []string, q url.Values, body []byte) (answer, bool) {
	path := strings.Join(parts, "/")
	for place, form := range objectsAt {
		if path == place || strings.HasPrefix(path, place+"/") {
			return c.object(method, place, strings.TrimPrefix(strings.TrimPrefix(path, place), "/"), form.list, form.item, q, body), true
		}
	}
	switch method + " " + path {
	case "GET ", "HEAD ":
		return ok(object{"name": "fake", "cluster_name": "fake", "cluster_uuid": "fake-cluster", "version": object{"distribution": "opensearch", "number": version}}), true
	case "GET _nodes/http", "GET _nodes", "GET _nodes/_local", "GET _nodes/_local/http":
		return ok(object{"nodes": object{"n1": object{"version": version, "roles": []string{"data", "ingest", "cluster_manager"}, "http": object{"max_content_length_in_bytes": 104857600}}}}), true
	case "GET _nodes/stats/fs":
		return ok(object{"nodes": object{"n1": object{"name": "fake", "roles": []string{"data"}, "fs": object{"total": object{"total_in_bytes": int64(1) << 40, "available_in_bytes": int64(1) << 39, "free_in_bytes": int64(1) << 39}}}}}), true
	case "GET _nodes/_local/stats/process", "GET _nodes/stats/process":
		return ok(object{"nodes": object{"n1": object{"timestamp": time.Now().UnixMilli()}}}), true
	case "GET _cluster/settings":
		return ok(object{"persistent": object{}, "transient": object{}, "defaults": object{}}), true
	case "GET _cluster/health":
		return ok(object{"status": "green", "number_of_nodes": 1, "number_of_data_nodes": 1, "timed_out": false}), true
	case "GET _data_stream":
		return ok(object{"data_streams": []any{}}), true
	case "POST _bulk":
		return c.bulk("", q, body), true
	case "POST _mget":
		return c.mget(body), true
	case "POST _aliases":
		return c.changeAliases(body), true
	case "POST _search":
		return c.search(body)
	case "DELETE _search/point_in_time":
		return c.closeReadings(body), true
	case "POST _refresh":
		return ok(object{"_shards": object{"total": 1, "successful": 1, "failed": 0}}), true
	case "GET _analyze", "POST _analyze":
		return ok(object{"tokens": []any{}}), true
	}
	switch {
	case method == http.MethodGet && parts[0] == "_data_stream":
		return failure(http.StatusNotFound, "index_not_found_exception", "no such index"), true
	case method == http.MethodGet && parts[0] == "_resolve":
		return ok(object{"indices": []any{}, "aliases": []any{}, "data_streams": []any{}}), true
	case method == http.MethodGet && strings.HasPrefix(path, "_plugins/"):
		return failure(http.StatusBadRequest, "illegal_argument_exception", "no handler found for uri"), true
	case parts[0] == "_alias" && method == http.MethodGet:
		return c.aliasesOf(parts[1:]), true
	}
	return answer{}, false
}

// object reads or writes a template, pipeline or script.
func (c *Cluster) object(method, place, name, list, item string, q url.Values, body []byte) answer {
	key := place + "/" + name
	was, there := c.objects[key]
	switch method {
	case http.MethodPut, http.MethodPost:
		if there && q.Get("create") == "true" {
			return failure(http.StatusBadRequest, "illegal_argument_exception", "["+name+"] already exists")
		}
		if !json.Valid(body) {
			return failure(http.StatusBadRequest, "parse_exception", "no JSON")
		}
		c.objects[key] = slices.Clone(body)
		return ok(acknowledged)
	case http.MethodDelete:
		if !there {
			return failure(http.StatusNotFound, "resource_not_found_exception", "["+name+"] missing")
		}
		delete(c.objects, key)
		return ok(acknowledged)
	}
	if method == http.MethodGet && name == "" {
		all := object{}
		listed := []any{}
		for key, o := range c.objects {
			if n, is := strings.CutPrefix(key, place+"/"); is {
				all[n] = o
				listed = append(listed, object{"name": n, item: o})
			}
		}
		if list != "" {
			return ok(object{list: listed})
		}
		return ok(all)
	}
	if !there {
		return failure(http.StatusNotFound, "resource_not_found_exception", "["+name+"] missing")
	}
	if list != "" {
		return ok(object{list: []any{object{"name": name, item: was}}})
	}
	return ok(object{name: was})
}

// text returns the value of a setting as a cluster formats it.
func text(v any) string {
	if s, is := v.(string); is {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
