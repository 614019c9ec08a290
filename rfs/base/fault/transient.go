package fault

import (
	"net/http"
	"strings"
)

// The rules for errors of OpenSearch and Elasticsearch that their status alone does not classify, from the sources of the servers.
// An exception that is none of the server's own has the status 500 (ExceptionsHelper.status), whether it says that the request makes
// no sense in the present state of the cluster or that a node is just ending. So 500 alone says nothing.
var kinds = []kind{
	// Checks of the cluster state: a second write index of an alias, aliases of which only some are hidden, and others. It is also
	// what a node throws that begins or ends.
	{http.StatusInternalServerError, "illegal_state_exception", []string{"stopped", "closed", "shutting down", "not started", "not set yet", "interrupted"}, true},
	{http.StatusInternalServerError, "illegal_state_exception", nil, false},
	// The document itself: the fail processor of a pipeline, and processors that cannot read a value.
	{http.StatusInternalServerError, "fail_processor_exception", nil, false},
	{http.StatusInternalServerError, "date_time_exception", nil, false},
	{http.StatusInternalServerError, "date_time_parse_exception", nil, false},
	// The request itself: JSON that releases before OpenSearch 2.4 answer with 500, and settings and calls that are not allowed.
	{http.StatusInternalServerError, "json_parse_exception", nil, false},
	{http.StatusInternalServerError, "json_e_o_f_exception", nil, false},
	{http.StatusInternalServerError, "settings_exception", nil, false},
	{http.StatusInternalServerError, "unsupported_operation_exception", nil, false},
	{http.StatusInternalServerError, "access_control_exception", nil, false},
	{http.StatusNotImplemented, "", nil, false},
	{http.StatusHTTPVersionNotSupported, "", nil, false},
	// Blocks, named by their ids. 1 (state not recovered) and 2 (no cluster manager) are 503. The cluster removes 12 (a disk beyond its
	// flood stage) by itself, with the status 429 or, in older releases, 403. All others (4 closed, 5 and 6 read-only, 7 read,
	// 8 write, 9 metadata, 10 no new indices, 13 read-only but for deletions) stay until somebody removes them; the closing of an
	// index has 4 as well.
	{http.StatusForbidden, "cluster_block_exception", []string{"/12/"}, true},
	// A circuit breaker (429) is transient whatever its durability says: PERMANENT means that most of the memory is in caches and
	// field data, which are evicted, too.
	{http.StatusTooManyRequests, "circuit_breaking_exception", nil, true},
}

// kind is a rule for one type of errors.
type kind struct {
	status    int
	name      string   // of the type; "": any
	words     []string // of the reason, one of them; nil: any reason
	transient bool
}

// Transient reports whether a cluster that answers with a status, and with type and reason of an error, may take the same request
// later although nobody changes anything. Where no rule is known for the type, 408, 429 and 5xx are transient.
func Transient(status int, name, reason string) bool {
	for _, k := range kinds {
		if k.status == status && (k.name == "" || k.name == name) && (k.words == nil || containsAny(reason, k.words)) {
			return k.transient
		}
	}
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= http.StatusInternalServerError
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
