package live

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
)

func TestCluster_Indices(t *testing.T) {
	const path = "GET /_all/_settings/index.uuid,index.blocks.*"
	c, _ := opened(t, map[string]answer{path + "?expand_wildcards=open%2Chidden": {200, `{"a":{},"b":{},"other":{}}`}, path: {200, `{
		"b":{"settings":{"index":{"uuid":"u2","blocks":{"write":"true"}}}},
		"a":{"settings":{"index":{"uuid":"u1","blocks":{"write":"false"}}}},
		"c":{"settings":{"index":{"uuid":"u3","blocks":{"read_only_allow_delete":"true"}}}},
		"other":{"settings":{"index":{"uuid":"u4"}}}}`}})
	got, err := c.Indices(t.Context(), func(name string) bool { return name != "other" })
	if want := []Index{{"a", "u1", false, false}, {"b", "u2", true, false}, {"c", "u3", true, true}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestCluster_Blocks: the request of each version, and answers that are no success.
func TestCluster_Blocks(t *testing.T) {
	root := func(version string) answer { return answer{200, `{"version":{"number":"` + version + `"}}`} }
	opensearch := answer{200, `{"version":{"distribution":"opensearch","number":"1.3.14"}}`}
	yes := answer{200, `{"acknowledged":true,"shards_acknowledged":true,"indices":[{"name":"a","blocked":true}]}`}
	for _, c := range []struct {
		name    string
		by      map[string]answer
		unblock bool
		sent    string
		is      error
	}{
		{"7.9", map[string]answer{"GET /": root("7.9.0"), "PUT /a/_block/write": yes}, false, "PUT /a/_block/write  ", nil},
		{"OpenSearch", map[string]answer{"GET /": opensearch, "PUT /a/_block/write": yes}, false, "PUT /a/_block/write  ", nil},
		{"7.8", map[string]answer{"GET /": root("7.8.1"), "PUT /a/_settings": {200, `{}`}}, false, `PUT /a/_settings  {"index.blocks.write":true}`, nil},
		{"a shard does not confirm", map[string]answer{"GET /": root("8.1.0"), "PUT /a/_block/write": {200, `{"acknowledged":true,"shards_acknowledged":false,"indices":[]}`}}, false, "", fault.ErrUnavailable},
		{"an index is not blocked", map[string]answer{"GET /": root("8.1.0"), "PUT /a/_block/write": {200, `{"shards_acknowledged":true,"indices":[{"name":"a","blocked":false}]}`}}, false, "", fault.ErrUnavailable},
		{"forbidden", map[string]answer{"GET /": root("8.1.0"), "PUT /a/_block/write": {403, `{"error":"no"}`}}, false, "", fault.ErrConfig},
		{"remove", map[string]answer{"GET /": root("7.10.2"), "PUT /a/_settings": {200, `{}`}}, true, `PUT /a/_settings  {"index.blocks.write":null}`, nil},
		{"remove in 2.4", map[string]answer{"GET /": root("2.4.6"), "PUT /a/_settings": {200, `{}`}}, true, `PUT /a/_settings  {"index.blocks.write":false}`, nil},
		{"remove from an index that is gone", map[string]answer{"GET /": root("7.10.2")}, true, "", nil},
		{"remove, forbidden", map[string]answer{"GET /": root("7.10.2"), "PUT /a/_settings": {403, `{}`}}, true, "", fault.ErrConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, a := opened(t, c.by)
			do := cluster.Block
			if c.unblock {
				do = cluster.Unblock
			}
			if err := do(t.Context(), []string{"a"}); !errors.Is(err, c.is) || c.is == nil && err != nil {
				t.Errorf("%v", err)
			}
			if c.sent != "" && !slices.Equal(a.sent, []string{c.sent}) {
				t.Errorf("sent %q", a.sent)
			}
		})
	}
}

// TestCluster_BlocksDataStreams: the index to which a data stream writes gets its block by a setting, as the API for blocks refuses it.
func TestCluster_BlocksDataStreams(t *testing.T) {
	cluster, a := opened(t, map[string]answer{
		"GET /":                            {200, `{"version":{"distribution":"opensearch","number":"2.19.4"}}`},
		"GET /_data_stream":                {200, `{"data_streams":[{"name":"x","indices":[{"index_name":".ds-x-000001"},{"index_name":".ds-x-000002"}]},{"name":"y","indices":[{"index_name":".ds-y-000001"}]}]}`},
		"PUT /.ds-x-000002/_settings":      {200, `{}`},
		"PUT /a,.ds-x-000001/_block/write": {200, `{"acknowledged":true,"shards_acknowledged":true,"indices":[{"name":"a","blocked":true},{"name":".ds-x-000001","blocked":true}]}`},
	})
	if err := cluster.Block(t.Context(), []string{"a", ".ds-x-000001", ".ds-x-000002"}); err != nil {
		t.Error(err)
	}
	if want := []string{`PUT /.ds-x-000002/_settings  {"index.blocks.write":true}`, "PUT /a,.ds-x-000001/_block/write  "}; !slices.Equal(a.sent, want) {
		t.Errorf("sent %q", a.sent)
	}
}

func TestCluster_BlockTakesNamesOnly(t *testing.T) {
	cluster, a := opened(t, map[string]answer{})
	for _, name := range []string{"*", "a,b", "_all", "-a", "", "<now/d>"} {
		if err := cluster.Block(t.Context(), []string{name}); !errors.Is(err, fault.ErrConfig) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(a.sent) > 0 {
		t.Errorf("sent %q", a.sent)
	}
}

func TestCluster_Shards(t *testing.T) {
	stats := func(failed, shards string) map[string]answer {
		return map[string]answer{"POST /a/_refresh": {200, `{}`}, "GET /a/_stats/docs": {200, `{"_shards":{"failed":` + failed + `},"indices":{"a":{"shards":{` + shards + `}}}}`}}
	}
	replica := `{"routing":{"primary":false},"docs":{"count":1},"seq_no":{"max_seq_no":4}}`
	c, _ := opened(t, stats("0", `"0":[`+replica+`,{"routing":{"primary":true},"docs":{"count":5},"seq_no":{"max_seq_no":9}}],"1":[{"routing":{"primary":true},"docs":{"count":3}}]`))
	got, err := c.Shards(t.Context(), []string{"a"})
	if want := map[string]map[int]Shard{"a": {0: {9, true, 5}, 1: {-1, false, 3}}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	c, _ = opened(t, stats("1", ``))
	if _, err := c.Shards(t.Context(), []string{"a"}); !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "1 shards") {
		t.Errorf("%v", err)
	}
}

// TestSource_SelectsIndices: a snapshot of a group names closed indices too, and for backing indices their data streams. A group that has
// no index makes no snapshot of all.
func TestSource_SelectsIndices(t *testing.T) {
	const path = "PUT /_snapshot/r/s"
	for _, c := range []struct {
		name, selects string
		want          string
	}{
		{"indices", "a", "a-1,a-2"},
		{"of a data stream", ".ds-", ".ds-alone,logs"},
		{"a backing index of another name", "", ".ds-alone,a-1,logs,other"},
		{"none", "z", "*,-*"},
	} {
		cluster := &answers{by: map[string]answer{
			"GET /": {200, `{"version":{"number":"7.10.2"}}`},
			"GET /_all/_settings/index.uuid,index.blocks.*": {200, `{"a-2":{},"a-1":{},".ds-logs-1":{},".ds-logs-2":{},".ds-alone":{},"other":{}}`},
			"GET /_data_stream":                             {200, `{"data_streams":[{"name":"logs","indices":[{"index_name":".ds-logs-1"},{"index_name":".ds-logs-2"},{"index_name":"a-2"}]},{"name":"more","indices":[{"index_name":".ds-more"}]}]}`},
			path:                                            {200, `{}`},
		}}
		if c.selects == "a" {
			delete(cluster.by, "GET /_data_stream") // the source may be too old for it
		}
		s := &Source{Connect: func(context.Context) (rest.API, error) { return cluster, nil }, Repository: Repository{Name: "r"}, Indices: []string{"x"}, Without: []string{"a-1"},
			Named: true, Selects: func(name string) bool { return strings.HasPrefix(name, c.selects) }}
		created, err := s.Create(t.Context(), "s")
		if want := `"ignore_unavailable":true,"include_global_state":false,"indices":"` + c.want + `"`; err != nil || !created || len(cluster.sent) != 1 || !strings.Contains(cluster.sent[0], want) {
			t.Errorf("%s: %q, %v", c.name, cluster.sent, err)
		}
	}
}

// TestSource_ClosedIndices: a source whose snapshots cannot contain closed indices makes none while a migrated one is closed.
func TestSource_ClosedIndices(t *testing.T) {
	for _, c := range []struct {
		name, version, closed string
		refused, all          bool
	}{
		{"none is closed", "6.8.23", `{}`, false, false},
		{"one that is migrated", "7.1.1", `{"logs-1":{},"other":{}}`, true, false},
		{"one that is not migrated", "6.8.23", `{"other":{}}`, false, false},
		{"closed indices keep their shards", "7.2.0", `{"logs-1":{}}`, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := &answers{by: map[string]answer{
				"GET /": {200, `{"version":{"number":"` + c.version + `"}}`},
				"GET /_all/_settings/index.uuid,index.blocks.*": {200, c.closed},
				"PUT /_snapshot/r/s":                            {200, `{}`},
			}}
			s := &Source{Connect: func(context.Context) (rest.API, error) { return cluster, nil }, Repository: Repository{Name: "r"},
				Selects: func(name string) bool { return strings.HasPrefix(name, "logs-") }}
			created, err := s.Create(t.Context(), "s")
			if c.refused {
				if created || len(cluster.sent) > 0 || !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "(1, such as logs-1)") {
					t.Errorf("sent %q, %v", cluster.sent, err)
				}
				return
			}
			if err != nil || len(cluster.sent) != 1 || strings.Contains(cluster.sent[0], `"expand_wildcards":"all"`) != c.all {
				t.Errorf("sent %q, %v", cluster.sent, err)
			}
		})
	}
}

// TestRequest_NamesNoIndex: when all named indices are left out, the snapshot has none, not all.
func TestRequest_NamesNoIndex(t *testing.T) {
	if got := (Request{Indices: []string{"a"}, Without: []string{"a"}}).names(); !slices.Equal(got, none) {
		t.Errorf("%q", got)
	}
}
