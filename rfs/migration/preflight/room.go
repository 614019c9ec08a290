package preflight

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/diskwatch"
)

// settingsOf reads the effective cluster settings with the prefixes.
func settingsOf(ctx context.Context, c rest.API, check string, prefixes ...string) (func(name, otherwise string) string, *Finding) {
	value, err := diskwatch.Settings(ctx, c, prefixes...)
	if err != nil {
		return nil, &Finding{check, Skipped, fault.Text(err), remedyOf(err)}
	}
	return value, nil
}

func health(ctx context.Context, c rest.API, n Needs) []Finding {
	var h struct {
		Status     string `json:"status"`
		Nodes      int64  `json:"number_of_data_nodes"`
		Active     int64  `json:"active_shards"`
		Starting   int64  `json:"initializing_shards"`
		Unassigned int64  `json:"unassigned_shards"`
	}
	if f := ask(ctx, c, "target is healthy", "/_cluster/health", nil, &h); f != nil {
		return []Finding{*f}
	}
	state := Finding{"target is healthy", Good, h.Status + ", " + progress.Plural(h.Nodes, "data node"), ""}
	if h.Status == "red" {
		state.Level, state.Remedy = Bad, "some primaries are missing: GET _cluster/allocation/explain"
	}
	value, f := settingsOf(ctx, c, "shards per node", "cluster.max_shards_per_node", "cluster.blocks")
	if f != nil {
		return []Finding{state, *f}
	}
	all := []Finding{state}
	for _, block := range []string{"cluster.blocks.read_only", "cluster.blocks.read_only_allow_delete"} {
		if value(block, "false") == "true" {
			all = append(all, Finding{"target may be written", Bad, block + " is set", "take the block away when its cause is gone"})
		}
	}
	each, err := strconv.ParseInt(value("cluster.max_shards_per_node", "1000"), 10, 64)
	if err != nil || each <= 0 || h.Nodes == 0 {
		return all // the target has no such limit
	}
	there, limit := h.Active+h.Starting+h.Unassigned, each*h.Nodes
	shards := Finding{"shards per node", Good, fmt.Sprintf("%d there, %d to come with replicas, %d allowed (cluster.max_shards_per_node %d, data nodes %d)", there, n.Shards, limit, each, h.Nodes), ""}
	if n.Shards > 0 && there+n.Shards > limit {
		shards.Level, shards.Remedy = Bad, "the target would refuse indices: raise cluster.max_shards_per_node, add nodes, or reduce shards with --shards and --replicas"
	}
	return append(all, shards)
}

func room(ctx context.Context, c rest.API, n Needs) []Finding {
	full, err := diskwatch.FullNodes(ctx, c)
	if err != nil {
		return []Finding{{"disks", Skipped, fault.Text(err), remedyOf(err)}}
	}
	all := []Finding{{"disks", Good, "every data node is below its high watermark", ""}}
	if len(full) > 0 {
		all[0] = Finding{"disks", Bad, fmt.Sprintf("node %s is %.0f %% full, above its high watermark %s", full[0].Node, 100*full[0].Used, full[0].Watermark), "free disk space, or add nodes: until then the target creates no index, and indexing pauses"}
	}
	var stats struct {
		Nodes map[string]struct {
			Roles []string `json:"roles"`
			FS    struct {
				Total struct {
					Available int64 `json:"available_in_bytes"`
				} `json:"total"`
			} `json:"fs"`
		} `json:"nodes"`
	}
	if f := ask(ctx, c, "room for the indices", "/_nodes/stats/fs", url.Values{"filter_path": {"nodes.*.roles,nodes.*.fs.total"}}, &stats); f != nil {
		return append(all, *f)
	}
	free := int64(0)
	for _, x := range stats.Nodes {
		if slices.ContainsFunc(x.Roles, func(r string) bool { return strings.HasPrefix(r, "data") }) {
			free += x.FS.Total.Available
		}
	}
	f := Finding{"room for the indices", Good, fmt.Sprintf("about %s needed with replicas, %s free", progress.Bytes(n.Bytes), progress.Bytes(free)), ""}
	switch {
	case n.Bytes > free:
		f.Level, f.Remedy = Bad, "add nodes or disks, or migrate fewer indices (--index-allowlist) or replicas (--replicas)"
	case 2*n.Bytes > free:
		f.Level, f.Remedy = Warning, "merges need as much again for a while: watch the disks, or start with --replicas 0"
	}
	return append(all, f)
}

func heap(ctx context.Context, c rest.API, _ Needs) []Finding {
	var stats struct {
		Nodes map[string]struct {
			Name string `json:"name"`
			JVM  struct {
				Mem struct {
					Used int `json:"heap_used_percent"`
				} `json:"mem"`
			} `json:"jvm"`
		} `json:"nodes"`
	}
	if f := ask(ctx, c, "heap", "/_nodes/stats/jvm", url.Values{"filter_path": {"nodes.*.name,nodes.*.jvm.mem.heap_used_percent"}}, &stats); f != nil {
		return []Finding{*f}
	}
	for _, x := range stats.Nodes {
		if x.JVM.Mem.Used > 85 {
			return []Finding{{"heap", Warning, fmt.Sprintf("node %s uses %d %% of its heap before anything is sent", x.Name, x.JVM.Mem.Used), "give nodes more heap, or send less at a time (--max-connections, --documents-size-per-bulk-request)"}}
		}
	}
	return []Finding{{"heap", Good, "", ""}}
}

// bodies compares the largest request body with the limit of the target.
func bodies(ctx context.Context, c rest.API, n Needs) []Finding {
	var nodes struct {
		Nodes map[string]struct {
			HTTP struct {
				Max int64 `json:"max_content_length_in_bytes"`
			} `json:"http"`
		} `json:"nodes"`
	}
	if f := ask(ctx, c, "size of requests", "/_nodes/http", url.Values{"filter_path": {"nodes.*.http.max_content_length_in_bytes"}}, &nodes); f != nil {
		return []Finding{*f}
	}
	for _, x := range nodes.Nodes {
		if x.HTTP.Max > 0 && n.BulkBytes > x.HTTP.Max {
			return []Finding{{"size of requests", Warning, fmt.Sprintf("the target takes at most %s (%d bytes), --documents-size-per-bulk-request is %s (%d bytes)", progress.Bytes(x.HTTP.Max), x.HTTP.Max, progress.Bytes(n.BulkBytes), n.BulkBytes), "every request would be refused and split: make it smaller"}}
		}
	}
	return []Finding{{"size of requests", Good, "", ""}}
}

// autoCreate reports the setting that decides whether documents for a deleted index create it again.
func autoCreate(ctx context.Context, c rest.API, _ Needs) []Finding {
	value, f := settingsOf(ctx, c, "automatic creation of indices", "action.auto_create_index")
	if f != nil {
		return []Finding{*f}
	}
	is := value("action.auto_create_index", "true")
	if is == "false" {
		return []Finding{{"automatic creation of indices", Good, "off", ""}}
	}
	return []Finding{{"automatic creation of indices", Good, is + ": an index that is deleted while documents come would be created again by the next request; rfsd compares its UUID and completes nothing of it", ""}}
}

func fields(_ context.Context, _ rest.API, n Needs) []Finding {
	var all []Finding
	for _, name := range slices.Sorted(maps.Keys(n.Over)) {
		for _, l := range n.Over[name] {
			all = append(all, Finding{"mapping of " + name, Bad, fmt.Sprintf("%s is %d, and %d are needed: the target would refuse the index", l.Setting, l.Limit, l.Has), "raise " + l.Setting + " with --rules"})
		}
	}
	if len(all) == 0 {
		all = append(all, Finding{"limits of mappings", Good, "", ""})
	}
	return all
}
