package fault

import (
	"errors"
	"fmt"
	"testing"
)

// TestTransient: errors in OpenSearch's wording, and whether waiting helps.
func TestTransient(t *testing.T) {
	for _, c := range []struct {
		status       int
		kind, reason string
		want         error
	}{
		{500, "illegal_state_exception", "alias [current] has more than one write index [pd-aliased-v1,aliased-v1]", ErrRejected},
		{500, "illegal_state_exception", "transport has been stopped", ErrUnavailable},
		{500, "illegal_state_exception", "initial cluster state not set yet", ErrUnavailable},
		{400, "illegal_argument_exception", "Limit of total fields [1000] has been exceeded", ErrRejected},
		{400, "illegal_argument_exception", "Limit of mapping depth [20] has been exceeded due to object field [a.b]", ErrRejected},
		{400, "validation_exception", "Validation Failed: 1: this action would add [2] total shards, but this cluster currently has [4]/[5] maximum shards open;", ErrRejected},
		{400, "mapper_parsing_exception", "failed to parse field [d] of type [date]", ErrRejected},
		{400, "index_closed_exception", "closed", ErrRejected},
		{400, "resource_already_exists_exception", "index [a/x] already exists", ErrRejected},
		{404, "index_not_found_exception", "no such index [a]", ErrRejected},
		{403, "security_exception", "no permissions for [indices:admin/aliases]", ErrConfig},
		{503, "security_exception", "OpenSearch Security not initialized.", ErrUnavailable},
		{503, "cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];", ErrUnavailable},
		{503, "cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/2/no cluster-manager];", ErrUnavailable},
		{429, "cluster_block_exception", "index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];", ErrUnavailable},
		{403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];", ErrUnavailable},
		{403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/8/index write (api)];", ErrConfig},
		{403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/5/index read-only (api)];", ErrConfig},
		{403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/8/index write (api), TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];", ErrConfig},
		{403, "index_create_block_exception", "blocked by: [FORBIDDEN/10/cluster create-index blocked (api)];", ErrUnavailable},
		{403, "cluster_block_exception", "blocked by: [FORBIDDEN/10/cluster create-index blocked (api)];", ErrUnavailable},
		{403, "cluster_block_exception", "blocked by: [FORBIDDEN/6/cluster read-only (api), FORBIDDEN/10/cluster create-index blocked (api)];", ErrConfig},
		{404, "index_shard_closed_exception", "CurrentState[CLOSED] operation only allowed when recovering", ErrUnavailable},
		{404, "shard_not_in_primary_mode_exception", "CurrentState[STARTED] shard is not in primary mode", ErrUnavailable},
		{404, "shard_not_found_exception", "no such shard", ErrUnavailable},
		{404, "search_context_missing_exception", "No search context found for id [1]", ErrRejected},
		{409, "index_primary_shard_not_allocated_exception", "primary not allocated post api", ErrUnavailable},
		{500, "index_primary_shard_not_allocated_exception", "primary not allocated post api", ErrUnavailable},
		{409, "version_conflict_engine_exception", "[1]: version conflict", ErrRejected},
		{400, "snapshot_in_progress_exception", "Cannot delete indices that are being snapshotted: [[a/x]]", ErrUnavailable},
		{400, "illegal_argument_exception", "Limit of nested fields [50] has been exceeded", ErrRejected},
		{400, "illegal_argument_exception", "unknown setting [index.frozen] please check that any required plugins are installed", ErrRejected},
		{400, "strict_dynamic_mapping_exception", "mapping set to strict, dynamic introduction of [a] within [_doc] is not allowed", ErrRejected},
		{400, "invalid_index_name_exception", "Invalid index name [A], must be lowercase", ErrRejected},
		{400, "parsing_exception", "unknown query [a]", ErrRejected},
		{500, "mapper_exception", "", ErrRejected},
		{500, "general_script_exception", "Failed to compile inline script", ErrRejected},
		{500, "input_coercion_exception", "Numeric value out of range of long", ErrRejected},
		{429, "rejected_execution_exception", "rejected execution of primary operation", ErrUnavailable},
		{429, "circuit_breaking_exception", "[parent] Data too large", ErrUnavailable},
		{402, "service_quota_exceeded_exception", "maximum OCU capacity reached", ErrUnavailable},
		{402, "", "pay first", ErrRejected},
		{500, "cluster_manager_throttling_exception", "Throttling Exception : Limit exceeded for put-mapping", ErrUnavailable},
		{500, "failed_to_commit_cluster_state_exception", "publication failed", ErrUnavailable},
		{500, "not_cluster_manager_exception", "no longer cluster-manager", ErrUnavailable},
		{500, "receive_timeout_transport_exception", "request_id [1] timed out", ErrUnavailable},
		{500, "task_cancelled_exception", "cancelled", ErrUnavailable},
		{503, "search_phase_execution_exception", "all shards failed", ErrUnavailable},
		{503, "no_shard_available_action_exception", "", ErrUnavailable},
		{503, "process_cluster_event_timeout_exception", "failed to process cluster event (create-index [a]) within 30s", ErrUnavailable},
		{503, "unavailable_shards_exception", "[a][0] primary shard is not active", ErrUnavailable},
		{500, "node_disconnected_exception", "disconnected", ErrUnavailable},
		{500, "already_closed_exception", "this IndexWriter is closed", ErrUnavailable},
		{500, "null_pointer_exception", "", ErrUnavailable},
		{500, "fail_processor_exception", "no", ErrRejected},
		{500, "settings_exception", "Failed to load settings", ErrRejected},
		{501, "", "not implemented", ErrRejected},
		{502, "", "bad gateway", ErrUnavailable},
		{408, "", "", ErrUnavailable},
	} {
		err := CheckStatus("POST /x", c.status, fmt.Appendf(nil, `{"error":{"type":%q,"reason":%q},"status":%d}`, c.kind, c.reason, c.status))
		if !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
		if transient := errors.Is(c.want, ErrUnavailable); Transient(c.status, c.kind, c.reason) != transient {
			t.Errorf("%d %s %q: transient %v", c.status, c.kind, c.reason, !transient)
		}
	}
}
