package objects

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// withoutPartition returns a template, or the body of an index, without its routing partition size; the size; and the number of
// shards. Both are 0 if unset. A simulation always uses one shard, and would reject every partition size.
func withoutPartition(template json.RawMessage) (rest json.RawMessage, size, shards int) {
	var all map[string]json.RawMessage
	var settings map[string]any
	if json.Unmarshal(template, &all) != nil || json.Unmarshal(all["settings"], &settings) != nil {
		return template, 0, 0 // the target rejects it
	}
	found := false
	take := func(in map[string]any, prefix string) {
		number := func(key string) int {
			n, _ := strconv.Atoi(fmt.Sprint(in[prefix+key]))
			return n
		}
		size, shards = max(size, number("routing_partition_size")), max(shards, number("number_of_shards"))
		if _, there := in[prefix+"routing_partition_size"]; there {
			delete(in, prefix+"routing_partition_size")
			found = true
		}
	}
	take(settings, "index.")
	take(settings, "")
	if nested, ok := settings["index"].(map[string]any); ok {
		take(nested, "")
	}
	if !found {
		return template, size, shards
	}
	b, err := json.Marshal(settings)
	if err != nil {
		return template, size, shards
	}
	all["settings"] = b
	if b, err = json.Marshal(all); err != nil {
		return template, size, shards
	}
	return b, size, shards
}

// checkPartition returns the target's error for an index whose routing partition size does not fit its number of shards.
func checkPartition(name string, size, shards int) error {
	if size <= 1 || shards == 0 || size < shards {
		return nil
	}
	return fmt.Errorf("index %s: routing partition size [%d] should be a positive number less than the number of shards [%d]: %w", name, size, shards, fault.ErrRejected)
}
