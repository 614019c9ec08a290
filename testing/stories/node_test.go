package stories

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	opensearch "github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/fakecluster"
)

var version = flag.String("node", "", "the version of a real OpenSearch on which the stories are told, one after the other; without it a cluster in memory")

// target is the cluster of a story.
type target interface {
	http.Handler
	Watch(before, after func(*http.Request) error)
	Documents() docs
	Indices() []string
	Operations(index string) int64
	Put(k fakecluster.Key, source string)
	Delete(k fakecluster.Key)
	Do(method, path, body string) (status int)
	Unknown() []string
}

// parallel lets stories run at the same time, unless they share a node.
func parallel(t *testing.T) {
	t.Helper()
	if *version == "" {
		t.Parallel()
	}
}

// newTarget returns an empty cluster.
func newTarget(t testing.TB) target {
	t.Helper()
	if *version == "" {
		return fakecluster.New()
	}
	at, err := url.Parse(opensearch.OpenSearch(t, *version).URL)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, url: at.String(), proxy: httputil.NewSingleHostReverseProxy(at)}
	n.Do(http.MethodDelete, "/"+strings.Join(append(slices.Clone(names), "older"), ",")+"?ignore_unavailable=true", "")
	n.Do(http.MethodDelete, "/_ingest/pipeline/drops", "")
	return n
}

// memory returns the cluster in memory; a story that needs more than a node can do is skipped on one.
func (w *world) memory() *fakecluster.Cluster {
	w.t.Helper()
	c, is := w.cluster.(*fakecluster.Cluster)
	if !is {
		w.t.Skip("a node keeps what it acknowledges")
	}
	return c
}

// node is a real node behind a proxy.
type node struct {
	t             testing.TB
	url           string
	proxy         *httputil.ReverseProxy
	before, after func(*http.Request) error
}

// Watch calls before when a request has arrived and after when it has had its effect. An error ends its connection.
func (n *node) Watch(before, after func(*http.Request) error) { n.before, n.after = before, after }

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n.before != nil && n.before(r) != nil {
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	n.proxy.ServeHTTP(answer, r)
	if n.after != nil && n.after(r) != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// ask sends a request past the proxy and decodes its response into out; 404 leaves out as it is.
func (n *node) ask(method, path, body string, out any) (status int) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	if out != nil && res.StatusCode != http.StatusNotFound {
		if err := json.NewDecoder(bytes.NewReader(raw)).Decode(out); err != nil || res.StatusCode >= 300 {
			n.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, raw)
		}
	}
	return res.StatusCode
}

func (n *node) Do(method, path, body string) int { return n.ask(method, path, body, nil) }

// Unknown returns nothing: a node answers every request.
func (n *node) Unknown() []string { return nil }

func (n *node) Indices() (all []string) {
	var answer []struct{ Index string }
	n.ask(http.MethodGet, "/_cat/indices?format=json&expand_wildcards=open", "", &answer)
	for _, x := range answer {
		if !strings.HasPrefix(x.Index, ".") {
			all = append(all, x.Index)
		}
	}
	slices.Sort(all)
	return all
}

func (n *node) Documents() docs {
	all := docs{}
	for _, index := range n.Indices() {
		n.Do(http.MethodPost, "/"+index+"/_refresh", "")
		var answer struct {
			Hits struct {
				Hits []struct {
					ID      string          `json:"_id"`
					Routing string          `json:"_routing"`
					Source  json.RawMessage `json:"_source"`
				}
			}
		}
		n.ask(http.MethodGet, "/"+index+"/_search?size=10000", "", &answer)
		for _, h := range answer.Hits.Hits {
			all[fakecluster.Key{Index: index, ID: h.ID, Routing: h.Routing}] = string(h.Source)
		}
	}
	return all
}

func (n *node) Operations(index string) (sum int64) {
	var answer struct {
		Indices map[string]struct {
			Shards map[string][]struct {
				Seq struct {
					Max int64 `json:"max_seq_no"`
				} `json:"seq_no"`
			}
		}
	}
	n.ask(http.MethodGet, "/"+index+"/_stats/docs?level=shards", "", &answer)
	for _, shards := range answer.Indices[index].Shards {
		for _, s := range shards {
			sum += s.Seq.Max + 1
		}
	}
	return sum
}

// document returns the path of a document.
func document(k fakecluster.Key) string {
	path := "/" + k.Index + "/_doc/" + url.PathEscape(k.ID)
	if k.Routing != "" {
		path += "?routing=" + url.QueryEscape(k.Routing)
	}
	return path
}

func (n *node) Put(k fakecluster.Key, source string) { n.Do(http.MethodPut, document(k), source) }

func (n *node) Delete(k fakecluster.Key) { n.Do(http.MethodDelete, document(k), "") }
