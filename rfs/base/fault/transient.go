package fault

import (
	"net/http"
	"slices"
	"strings"
)

// kinds are the rules for errors of OpenSearch and Elasticsearch that their status alone does not classify, from the sources of OpenSearch
// (the classes and their status() in 2.19.4). ExceptionsHelper.status returns 400 for each IllegalArgumentException: limits of mappings,
// the limit of shards (ValidationException), unknown settings, names. Other exceptions, and classes of the server that do not override
// status(), are 500, both for requests that make no sense in the present state of the cluster and for a node that is stopping. So 500 alone
// decides nothing.
var kinds = []kind{
	// IllegalStateException, from checks of the cluster state: a second write index of an alias (AliasValidator), an alias hidden in only
	// some indices, and others. A starting or stopping node throws it, too.
	{http.StatusInternalServerError, []string{"illegal_state_exception"}, []string{"stopped", "closed", "shutting down", "not started", "not set yet", "interrupted"}, true},
	{http.StatusInternalServerError, []string{"illegal_state_exception"}, nil, false},
	// The document itself: FailProcessorException of a pipeline, processors that cannot parse a value, and GeneralScriptException.
	{http.StatusInternalServerError, []string{"fail_processor_exception", "date_time_exception", "date_time_parse_exception", "general_script_exception"}, nil, false},
	// The request itself: JSON that releases before OpenSearch 2.4 answer with 500 (ExceptionsHelper.status has JsonParseException and
	// InputCoercionException since), SettingsException, MapperException, and calls that are not allowed.
	{http.StatusInternalServerError, []string{"json_parse_exception", "json_e_o_f_exception", "input_coercion_exception", "settings_exception", "mapper_exception"}, nil, false},
	{http.StatusInternalServerError, []string{"unsupported_operation_exception", "access_control_exception"}, nil, false},
	{http.StatusNotImplemented, nil, nil, false},
	{http.StatusHTTPVersionNotSupported, nil, nil, false},
	// Blocks (ClusterBlockException), identified by their ids; the status is the highest of all. 1 (state not recovered) and 2 (no cluster
	// manager) are 503. DiskThresholdMonitor removes 12 (a disk beyond its flood stage: 429, in older releases 403) and 10 (no new indices:
	// all nodes are above the high watermark) by itself. All others of IndexMetadata, Metadata and MetadataIndexStateService (4 closed, 5
	// and 6 read-only, 7 read, 8 write, 9 metadata, 13 read-only except for deletions) stay until an operator removes them; closing an
	// index sets 4 as well.
	{http.StatusForbidden, blockTypes, []string{"/4/", "/5/", "/6/", "/7/", "/8/", "/9/", "/13/"}, false},
	{http.StatusForbidden, blockTypes, []string{"/10/", "/12/"}, true},
	// A copy of a shard that moves or starts: IllegalIndexShardStateException with its subclasses, and ShardNotFoundException. These are
	// 404; TransportActions.isShardNotAvailableException makes OpenSearch retry them on another copy.
	{http.StatusNotFound, []string{"illegal_index_shard_state_exception", "index_shard_closed_exception", "index_shard_not_started_exception",
		"index_shard_not_recovering_exception", "index_shard_recovering_exception", "index_shard_relocated_exception", "index_shard_started_exception",
		"primary_shard_closed_exception", "shard_not_in_primary_mode_exception", "shard_not_found_exception"}, nil, true},
	// IndexPrimaryShardNotAllocatedException is 500, and 409 in releases of Elasticsearch.
	{http.StatusConflict, []string{"index_primary_shard_not_allocated_exception"}, nil, true},
	// SnapshotInProgressException: an index in a running snapshot can be neither deleted nor closed.
	{http.StatusBadRequest, []string{"snapshot_in_progress_exception"}, nil, true},
	// CircuitBreakingException is transient regardless of its durability: PERMANENT means that most of the memory is in caches and
	// field data, which are evicted, too. OpenSearchRejectedExecutionException has the same status.
	{http.StatusTooManyRequests, []string{"circuit_breaking_exception"}, nil, true},
	// Collections of OpenSearch Serverless whose compute units are all in use, until more are added.
	{http.StatusPaymentRequired, []string{"service_quota_exceeded_exception"}, nil, true},
}

var blockTypes = []string{"cluster_block_exception", "index_create_block_exception"}

// kind is a rule for types of errors.
type kind struct {
	status    int
	names     []string // of the types; nil: any
	words     []string // of the reason, any of them; nil: any reason
	transient bool
}

// Transient reports whether a cluster that answered with a status, error type and reason may accept the same request later without any
// change by an operator. Without a rule for the type, 408, 429 and 5xx are transient.
func Transient(status int, name, reason string) bool {
	for _, k := range kinds {
		if k.status == status && (k.names == nil || slices.Contains(k.names, name)) && (k.words == nil || containsAny(reason, k.words)) {
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
