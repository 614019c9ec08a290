package serverless

import (
	"net/http"
	"strings"
)

// parameters are the accepted request parameters.
var parameters = []string{"flat_settings", "filter_path", "ignore_unavailable", "allow_no_indices", "keep_alive", "from", "size", "create"}

// settings are the index settings that a request may set, including those below them.
var settings = []string{"analysis", "similarity", "mapping", "knn"}

// operations are the operations documented by AWS that tests or rfsd use. <name> is one name or a comma-separated list; <id> is a document
// id.
var operations = []string{
	// aoss:CreateIndex, aoss:DeleteIndex
	"PUT <name>", "DELETE <name>",
	// aoss:DescribeIndex
	"GET <name>", "GET <name>/_mapping", "GET <name>/_mappings", "GET <name>/_setting", "GET <name>/_setting/<name>", "GET <name>/_settings", "GET <name>/_settings/<name>",
	"GET _cat/indices", "GET _mapping", "GET _mappings", "GET _resolve/index/<name>", "HEAD <name>",
	// aoss:WriteDocument
	"DELETE <name>/_doc/<id>", "POST <name>/_bulk", "POST <name>/_doc", "POST _bulk",
	// aoss:ReadDocument
	"GET <name>/_analyze", "GET <name>/_doc/<id>", "GET <name>/_explain/<id>", "GET <name>/_mget", "GET <name>/_source/<id>", "GET <name>/_count", "GET <name>/_field_caps",
	"GET <name>/_msearch", "GET <name>/_search", "GET _mget", "GET _search", "HEAD <name>/_doc/<id>", "HEAD <name>/_source/<id>",
	"POST <name>/_count", "POST <name>/_search", "POST _search",
	"POST <name>/_search/point_in_time", "GET _search/point_in_time/_all", "DELETE _search/point_in_time", "DELETE _search/point_in_time/_all",
	// aoss:UpdateIndex
	"PUT <name>/_mapping", "PUT <name>/_mappings", "POST <name>/_mapping", "PUT <name>/_settings", "POST <name>/_settings",
	// aoss:CreateCollectionItems, aoss:DescribeCollectionItems
	"POST _aliases", "GET <name>/_alias/<name>", "GET _alias", "GET _alias/<name>", "GET _cat/aliases", "GET _cat/templates", "GET _component_template", "GET _component_template/<name>",
	"GET _index_template", "GET _index_template/<name>", "HEAD _alias/<name>", "HEAD _component_template/<name>", "HEAD _index_template/<name>", "HEAD <name>/_alias/<name>",
	// aoss:UpdateCollectionItems, aoss:DeleteCollectionItems
	"PUT <name>/_alias/<name>", "POST _component_template/<name>", "PUT _component_template/<name>", "POST _index_template/<name>", "PUT _index_template/<name>",
	"DELETE <name>/_alias/<name>", "DELETE _component_template/<name>", "DELETE _index_template/<name>",
}

// searchOnly are operations of search collections.
var searchOnly = []string{"PUT <name>/_doc/<id>", "PUT <name>/_create/<id>", "POST <name>/_create/<id>", "POST <name>/_update/<id>"}

// find returns the operation of a request to a collection of a type; "": not supported.
func find(r *http.Request, kind string) string {
	all := operations
	if kind == Search {
		all = append(append([]string{}, all...), searchOnly...)
	}
	got := strings.Split(r.Method+" "+strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for _, o := range all {
		if same(strings.Split(o, "/"), got) {
			return o
		}
	}
	return ""
}

// same reports whether a request matches an operation, segment by segment of the path.
func same(operation, got []string) bool {
	if len(operation) != len(got) {
		return false
	}
	for i, part := range operation {
		isFirst, want, is := i == 0, part, got[i]
		if isFirst {
			var method, asked string
			method, want, _ = strings.Cut(part, " ")
			if asked, is, _ = strings.Cut(got[i], " "); asked != method {
				return false
			}
		}
		switch want {
		case "<id>":
			if is == "" {
				return false
			}
		case "<name>":
			if is == "" || is[0] == '_' || is[0] == '.' && isFirst {
				return false
			}
		default:
			if is != want {
				return false
			}
		}
	}
	return true
}
