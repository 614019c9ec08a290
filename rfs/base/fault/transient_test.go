package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// TestTransient: errors in OpenSearch's wording, and whether waiting helps.
func TestTransient(t *testing.T) {
	for _, c := range []struct {
		status       int
		kind, reason string
		want         error
	}{
		{500, "illegal_state_exception", "alias [current] has more than one write index [pd-aliased-v1,aliased-v1]", fault.ErrRejected},
		{500, "illegal_state_exception", "transport has been stopped", fault.ErrUnavailable},
		{500, "illegal_state_exception", "initial cluster state not set yet", fault.ErrUnavailable},
		{400, "illegal_argument_exception", "Limit of total fields [1000] has been exceeded", fault.ErrRejected},
		{400, "illegal_argument_exception", "Limit of mapping depth [20] has been exceeded due to object field [a.b]", fault.ErrRejected},
		{400, "validation_exception", "Validation Failed: 1: this action would add [2] total shards, but this cluster currently has [4]/[5] maximum shards open;", fault.ErrRejected},
		{400, "mapper_parsing_exception", "failed to parse field [d] of type [date]", fault.ErrRejected},
		{400, "index_closed_exception", "closed", fault.ErrRejected},
		{400, "resource_already_exists_exception", "index [a/x] already exists", fault.ErrRejected},
		{404, "index_not_found_exception", "no such index [a]", fault.ErrRejected},
		{403, "security_exception", "no permissions for [indices:admin/aliases]", fault.ErrConfig},
		{503, "security_exception", "OpenSearch Security not initialized.", fault.ErrUnavailable},
		{503, "cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];", fault.ErrUnavailable},
		{503, "cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/2/no cluster-manager];", fault.ErrUnavailable},
		{429, "cluster_block_exception", "index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];", fault.ErrUnavailable},
		{403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];", fault.ErrUnavailable},
		{403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/8/index write (api)];", fault.ErrConfig},
		{403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/5/index read-only (api)];", fault.ErrConfig},
		{403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/8/index write (api), TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];", fault.ErrConfig},
		{403, "index_create_block_exception", "blocked by: [FORBIDDEN/10/cluster create-index blocked (api)];", fault.ErrUnavailable},
		{403, "cluster_block_exception", "blocked by: [FORBIDDEN/10/cluster create-index blocked (api)];", fault.ErrUnavailable},
		{403, "cluster_block_exception", "blocked by: [FORBIDDEN/6/cluster read-only (api), FORBIDDEN/10/cluster create-index blocked (api)];", fault.ErrConfig},
		{404, "index_shard_closed_exception", "CurrentState[CLOSED] operation only allowed when recovering", fault.ErrUnavailable},
		{404, "shard_not_in_primary_mode_exception", "CurrentState[STARTED] shard is not in primary mode", fault.ErrUnavailable},
		{404, "shard_not_found_exception", "no such shard", fault.ErrUnavailable},
		{404, "search_context_missing_exception", "No search context found for id [1]", fault.ErrRejected},
		{409, "index_primary_shard_not_allocated_exception", "primary not allocated post api", fault.ErrUnavailable},
		{500, "index_primary_shard_not_allocated_exception", "primary not allocated post api", fault.ErrUnavailable},
		{409, "version_conflict_engine_exception", "[1]: version conflict", fault.ErrRejected},
		{400, "snapshot_in_progress_exception", "Cannot delete indices that are being snapshotted: [[a/x]]", fault.ErrUnavailable},
		{400, "illegal_argument_exception", "Limit of nested fields [50] has been exceeded", fault.ErrRejected},
		{400, "illegal_argument_exception", "unknown setting [index.frozen] please check that any required plugins are installed", fault.ErrRejected},
		{400, "strict_dynamic_mapping_exception", "mapping set to strict, dynamic introduction of [a] within [_doc] is not allowed", fault.ErrRejected},
		{400, "invalid_index_name_exception", "Invalid index name [A], must be lowercase", fault.ErrRejected},
		{400, "parsing_exception", "unknown query [a]", fault.ErrRejected},
		{500, "mapper_exception", "", fault.ErrRejected},
		{500, "general_script_exception", "Failed to compile inline script", fault.ErrRejected},
		{500, "input_coercion_exception", "Numeric value out of range of long", fault.ErrRejected},
		{429, "rejected_execution_exception", "rejected execution of primary operation", fault.ErrUnavailable},
		{429, "circuit_breaking_exception", "[parent] Data too large", fault.ErrUnavailable},
		{402, "service_quota_exceeded_exception", "maximum OCU capacity reached", fault.ErrUnavailable},
		{402, "", "pay first", fault.ErrRejected},
		{500, "cluster_manager_throttling_exception", "Throttling Exception : Limit exceeded for put-mapping", fault.ErrUnavailable},
		{500, "failed_to_commit_cluster_state_exception", "publication failed", fault.ErrUnavailable},
		{500, "not_cluster_manager_exception", "no longer cluster-manager", fault.ErrUnavailable},
		{500, "receive_timeout_transport_exception", "request_id [1] timed out", fault.ErrUnavailable},
		{500, "task_cancelled_exception", "cancelled", fault.ErrUnavailable},
		{503, "search_phase_execution_exception", "all shards failed", fault.ErrUnavailable},
		{503, "no_shard_available_action_exception", "", fault.ErrUnavailable},
		{503, "process_cluster_event_timeout_exception", "failed to process cluster event (create-index [a]) within 30s", fault.ErrUnavailable},
		{503, "unavailable_shards_exception", "[a][0] primary shard is not active", fault.ErrUnavailable},
		{500, "node_disconnected_exception", "disconnected", fault.ErrUnavailable},
		{500, "already_closed_exception", "this IndexWriter is closed", fault.ErrUnavailable},
		{500, "null_pointer_exception", "", fault.ErrUnavailable},
		{500, "fail_processor_exception", "no", fault.ErrRejected},
		{500, "settings_exception", "Failed to load settings", fault.ErrRejected},
		{501, "", "not implemented", fault.ErrRejected},
		{502, "", "bad gateway", fault.ErrUnavailable},
		{408, "", "", fault.ErrUnavailable},
	} {
		err := fault.CheckStatus("POST /x", c.status, fmt.Appendf(nil, `{"error":{"type":%q,"reason":%q},"status":%d}`, c.kind, c.reason, c.status))
		if !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
		if transient := errors.Is(c.want, fault.ErrUnavailable); fault.Transient(c.status, c.kind, c.reason) != transient {
			t.Errorf("%d %s %q: transient %v", c.status, c.kind, c.reason, !transient)
		}
	}
}
