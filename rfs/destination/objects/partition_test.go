package objects_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// oneShardSimulator simulates templates as OpenSearch does: for an index with one shard.
type oneShardSimulator struct {
	objects.DryRunTarget
	asked int
}

func (o *oneShardSimulator) Do(_ context.Context, _, _ string, _ url.Values, body []byte) (int, []byte, error) {
	o.asked++
	if strings.Contains(string(body), "routing_partition_size") {
		return http.StatusBadRequest, []byte(`{"error":{"type":"illegal_argument_exception","reason":"routing partition size [2] should be a positive number less than the number of shards [1] for [simulate_template_index_x]"},"status":400}`), nil
	}
	if !json.Valid(body) {
		return http.StatusBadRequest, nil, nil
	}
	return http.StatusOK, []byte(`{}`), nil
}

// TestDryRunCluster_RoutingPartition: an index with a routing partition is refused when its shards do not fit, and only then.
func TestDryRunCluster_RoutingPartition(t *testing.T) {
	for _, c := range []struct {
		name, body string
		refused    bool
	}{
		{"no partition", `{"settings":{"index.number_of_shards":"1"}}`, false},
		{"fewer than the shards", `{"settings":{"index.number_of_shards":"5","index.routing_partition_size":"2"},"mappings":{"_routing":{"required":true}}}`, false},
		{"nested", `{"settings":{"index":{"number_of_shards":5,"routing_partition_size":2}}}`, false},
		{"without index.", `{"settings":{"number_of_shards":"5","routing_partition_size":"2"}}`, false},
		{"one is the default", `{"settings":{"index.number_of_shards":"1","index.routing_partition_size":"1"}}`, false},
		{"as many as the shards", `{"settings":{"index.number_of_shards":"2","index.routing_partition_size":"2"}}`, true},
		{"--shards NAME=1", `{"settings":{"index.number_of_shards":"1","index.routing_partition_size":"2"}}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := &oneShardSimulator{}
			err := objects.DryRunCluster{Target: on}.CreateIndex(t.Context(), "edge-part", []byte(c.body))
			if c.refused != errors.Is(err, fault.ErrRejected) || !c.refused && err != nil {
				t.Error(err)
			}
			if !c.refused && on.asked != 1 {
				t.Errorf("asked %d times", on.asked)
			}
		})
	}
}
