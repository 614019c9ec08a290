package live

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// answers is a cluster that answers from a table, and remembers what it was told.
type answers struct {
	by   map[string]answer // "GET /path"
	sent []string          // requests that are no GET, with their bodies
}

type answer struct {
	status int
	body   string
}

func (a *answers) Do(_ context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	if method != "GET" {
		a.sent = append(a.sent, method+" "+path+" "+query.Encode()+" "+string(body))
	}
	got, ok := a.by[method+" "+path+"?"+query.Encode()]
	if !ok {
		got, ok = a.by[method+" "+path]
	}
	if !ok {
		return 404, []byte(`{"error":"nothing here","status":404}`), nil
	}
	return got.status, []byte(got.body), nil
}

func opened(t *testing.T, by map[string]answer) (*Cluster, *answers) {
	t.Helper()
	if _, ok := by["GET /"]; !ok {
		by["GET /"] = answer{200, `{"version":{"number":"7.10.2"}}`}
	}
	a := &answers{by: by}
	c, err := Open(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return c, a
}

func TestEverySourceTellsItsVersion(t *testing.T) {
	nodes := answer{200, `{"nodes":{"x":{"version":"2.19.4"}}}`}
	for _, c := range []struct {
		name string
		by   map[string]answer
		want Version
		is   error
	}{
		{"Elasticsearch 1.7", map[string]answer{"GET /": {200, `{"status":200,"name":"n","version":{"number":"1.7.6","lucene_version":"4.10.4"},"tagline":"You Know, for Search"}`}},
			Version{"elasticsearch", "1.7.6", 1, 7}, nil},
		{"Elasticsearch 9.5", map[string]answer{"GET /": {200, `{"version":{"number":"9.5.3","build_flavor":"default"},"tagline":"You Know, for Search"}`}},
			Version{"elasticsearch", "9.5.3", 9, 5}, nil},
		{"OpenSearch 3.8", map[string]answer{"GET /": {200, `{"version":{"distribution":"opensearch","number":"3.8.0"}}`}}, Version{"opensearch", "3.8.0", 3, 8}, nil},
		{"OpenSearch that calls itself 7.10.2", map[string]answer{"GET /": {200, `{"version":{"number":"7.10.2"},"tagline":"The OpenSearch Project: https://opensearch.org/"}`}, "GET /_nodes/_local": nodes},
			Version{"opensearch", "2.19.4", 2, 19}, nil},
		{"no answer to GET /", map[string]answer{"GET /": {405, ``}, "GET /_nodes/_local": {200, `{"nodes":{"x":{"version":"6.8.23"}}}`}}, Version{"elasticsearch", "6.8.23", 6, 8}, nil},
		{"wrong user", map[string]answer{"GET /": {401, `{"error":"no"}`}, "GET /_nodes/_local": {401, `{"error":"no"}`}}, Version{}, fault.ErrConfig},
		{"no search engine", map[string]answer{"GET /": {200, `{"version":{"number":"nginx"}}`}}, Version{}, fault.ErrConfig},
	} {
		got, err := Open(t.Context(), &answers{by: c.by})
		if !errors.Is(err, c.is) || err == nil && got.Version() != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// TestCluster_UUID: before Elasticsearch 5, and before a cluster has formed, it is unknown.
func TestCluster_UUID(t *testing.T) {
	for root, want := range map[string]string{
		`{"version":{"number":"7.10.2"},"cluster_uuid":"xPzm"}`: "xPzm", `{"version":{"number":"7.10.2"},"cluster_uuid":"_na_"}`: "", `{"version":{"number":"2.4.6"}}`: "",
	} {
		if c, _ := opened(t, map[string]answer{"GET /": {200, root}}); c.UUID() != want {
			t.Errorf("%s: %q", root, c.UUID())
		}
	}
}

func TestARepositoryIsRegisteredOnceAndNeverMoved(t *testing.T) {
	want := Repository{Name: "r", Type: "fs", Settings: map[string]string{"location": "/snapshots"}}
	for _, c := range []struct {
		name string
		by   map[string]answer
		sent string // the last request
		is   error
		says string
	}{
		{"not there", map[string]answer{"PUT /_snapshot/r": {200, `{"acknowledged":true}`}}, `PUT /_snapshot/r  {"settings":{"location":"/snapshots"},"type":"fs"}`, nil, ""},
		{"there already", map[string]answer{"GET /_snapshot/r": {200, `{"r":{"type":"fs","settings":{"location":"/snapshots/","compress":"true"}}}`}, "POST /_snapshot/r/_verify": {200, `{}`}},
			"POST /_snapshot/r/_verify  ", nil, ""},
		{"elsewhere", map[string]answer{"GET /_snapshot/r": {200, `{"r":{"type":"fs","settings":{"location":"/other"}}}`}}, "", fault.ErrConfig, `"/other"`},
		{"of another type", map[string]answer{"GET /_snapshot/r": {200, `{"r":{"type":"s3","settings":{}}}`}}, "", fault.ErrConfig, "s3"},
		{"not writable", map[string]answer{"PUT /_snapshot/r": {500, `{"error":{"type":"repository_verification_exception","reason":"[r] path  is not accessible on master node","caused_by":{"type":"access_denied_exception","reason":"/snapshots/tests"}},"status":500}`}},
			"", fault.ErrConfig, "access_denied_exception: /snapshots/tests"},
		{"in words of 1.x", map[string]answer{"PUT /_snapshot/r": {500, `{"error":"RepositoryException[[r] location [/snapshots] doesn't match any of the locations specified by path.repo]","status":500}`}},
			"", fault.ErrConfig, "path.repo"},
		{"forbidden", map[string]answer{"GET /_snapshot/r": {403, `{"error":{"type":"security_exception","reason":"no permissions"}}`}}, "", fault.ErrConfig, "no permissions"},
	} {
		cluster, a := opened(t, c.by)
		_, err := cluster.RegisterRepository(t.Context(), want)
		if !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.sent != "" && (len(a.sent) != 1 || a.sent[0] != c.sent) {
			t.Errorf("%s: sent %q", c.name, a.sent)
		}
	}
}

func TestARepositoryWithOtherSettingsIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name, has string
		wanted    map[string]string
		differs   string
	}{
		{"the same", `{"bucket":"b","base_path":"p/","max_snapshot_bytes_per_sec":"40mb","compress":"true"}`, map[string]string{"bucket": "b", "base_path": "p", "max_snapshot_bytes_per_sec": "40mb"}, ""},
		{"a boolean", `{"bucket":"b","compress":true}`, map[string]string{"bucket": "b", "compress": "true"}, ""},
		{"another rate", `{"bucket":"b","max_snapshot_bytes_per_sec":"20mb"}`, map[string]string{"bucket": "b", "max_snapshot_bytes_per_sec": "40mb"}, "max_snapshot_bytes_per_sec"},
		{"no rate", `{"bucket":"b"}`, map[string]string{"bucket": "b", "max_snapshot_bytes_per_sec": "40mb"}, "max_snapshot_bytes_per_sec"},
		{"a prefix that was not asked for", `{"bucket":"b","base_path":"p"}`, map[string]string{"bucket": "b"}, "base_path"},
		{"the region of the source itself", `{"bucket":"b"}`, map[string]string{"bucket": "b", "region": "eu-west-1"}, ""},
		{"another region", `{"bucket":"b","region":"us-east-1"}`, map[string]string{"bucket": "b", "region": "eu-west-1"}, "region"},
		{"secrets, which are not told", `{"bucket":"b"}`, map[string]string{"bucket": "b", "access_key": "a", "secret_key": "s", "session_token": "t"}, ""},
	} {
		cluster, _ := opened(t, map[string]answer{"GET /_snapshot/r": {200, `{"r":{"type":"s3","settings":` + c.has + `}}`}, "POST /_snapshot/r/_verify": {200, `{}`}})
		_, err := cluster.RegisterRepository(t.Context(), Repository{Name: "r", Type: "s3", Settings: c.wanted})
		if (err == nil) != (c.differs == "") || err != nil && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "whose "+c.differs+" is")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestASnapshotIsBegunOnceAndItsNameIsNoError(t *testing.T) {
	r := Request{Repository: "r", Name: "s", Indices: []string{"a", "b"}, Global: true}
	cluster, a := opened(t, map[string]answer{"PUT /_snapshot/r/s": {200, `{"accepted":true}`}})
	if created, err := cluster.CreateSnapshot(t.Context(), r); err != nil || !created {
		t.Errorf("%v, %v", created, err)
	}
	if want := `PUT /_snapshot/r/s wait_for_completion=false {"expand_wildcards":"all","include_global_state":true,"indices":"a,b","partial":false}`; len(a.sent) != 1 || a.sent[0] != want {
		t.Errorf("sent %q", a.sent)
	}
	for want, r := range map[string]Request{
		`"indices":"b"`: {Indices: []string{"a", "b"}, Without: []string{"a", "c"}},
		`"ignore_unavailable":true,"include_global_state":false,"indices":"*,-a,-c"`: {Without: []string{"a", ".ds-s-000001", "c"}},
		`{"expand_wildcards":"all","include_global_state":false,"partial":false}`:    {Without: []string{".ds-s-000001"}},
	} {
		r.Repository, r.Name = "r", "s"
		cluster, a := opened(t, map[string]answer{"PUT /_snapshot/r/s": {200, `{"accepted":true}`}})
		if _, err := cluster.CreateSnapshot(t.Context(), r); err != nil || len(a.sent) != 1 || !strings.Contains(a.sent[0], want) {
			t.Errorf("sent %q, %v, want %s", a.sent, err, want)
		}
	}
	there := answer{200, `{"snapshots":[{"snapshot":"s","uuid":"u","state":"SUCCESS"}]}`}
	for name, refused := range map[string]answer{
		"7.10": {400, `{"error":{"type":"invalid_snapshot_name_exception","reason":"[r:s] Invalid snapshot name [s], snapshot with the same name already exists"},"status":400}`},
		"1.7":  {400, `{"error":"InvalidSnapshotNameException[[r:s] Invalid snapshot name [s], snapshot with such name already exists]","status":400}`},
		"busy": {503, `{"error":{"type":"concurrent_snapshot_execution_exception","reason":"a snapshot is already running"},"status":503}`},
	} {
		cluster, _ := opened(t, map[string]answer{"PUT /_snapshot/r/s": refused, "GET /_snapshot/r/s": there})
		if created, err := cluster.CreateSnapshot(t.Context(), r); err != nil || created {
			t.Errorf("%s: %v, %v", name, created, err)
		}
	}
	cluster, _ = opened(t, map[string]answer{"PUT /_snapshot/r/s": {503, `{"error":{"type":"concurrent_snapshot_execution_exception","reason":"another runs"}}`}})
	if _, err := cluster.CreateSnapshot(t.Context(), r); !errors.Is(err, ErrBusy) || !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "another runs") {
		t.Errorf("another snapshot runs: %v", err)
	}
	for name, refused := range map[string]answer{
		"1.7":   {503, `{"error":"RemoteTransportException[[n][inet[/127.0.0.1:9300]][cluster:admin/snapshot/create]]; nested: ConcurrentSnapshotExecutionException[[r:s] a snapshot is already running]; ","status":503}`},
		"calm":  {503, `{"error":{"type":"cluster_block_exception","reason":"no master"},"status":503}`},
		"wrong": {400, `{"error":{"type":"invalid_snapshot_name_exception","reason":"must be lowercase"},"status":400}`},
	} {
		cluster, _ = opened(t, map[string]answer{"PUT /_snapshot/r/s": refused})
		if _, err := cluster.CreateSnapshot(t.Context(), r); errors.Is(err, ErrBusy) != (name == "1.7") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCluster_DeletesSnapshotsOnce(t *testing.T) {
	for name, is := range map[string]error{"gone": nil, "busy": ErrBusy, "*": fault.ErrConfig} {
		cluster, _ := opened(t, map[string]answer{"DELETE /_snapshot/r/busy": {503, `{"error":{"type":"concurrent_snapshot_execution_exception","reason":"busy"},"status":503}`}})
		if err := cluster.DeleteSnapshot(t.Context(), "r", name); !errors.Is(err, is) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStatesOfSnapshotsAreReadFromEveryVersion(t *testing.T) {
	for _, c := range []struct {
		name string
		by   map[string]answer
		want State
		is   error
	}{
		{"1.7, done, without a UUID", map[string]answer{"GET /_snapshot/r/s": {200, `{"snapshots":[{"snapshot":"s","version_id":1070699,"indices":["a"],"state":"SUCCESS","start_time_in_millis":5,"failures":[],"shards":{"total":2,"failed":0,"successful":2}}]}`}},
			State{State: "SUCCESS", Started: 5, ShardsTotal: 2, ShardsDone: 2}, nil},
		{"5.6, running", map[string]answer{
			"GET /_snapshot/r/s":         {200, `{"snapshots":[{"snapshot":"s","uuid":"u","state":"IN_PROGRESS","start_time_in_millis":5,"shards":{"total":0,"failed":0,"successful":0}}]}`},
			"GET /_snapshot/r/s/_status": {200, `{"snapshots":[{"shards_stats":{"done":1,"failed":0,"total":3},"stats":{"total_size_in_bytes":900,"processed_size_in_bytes":300}}]}`},
		}, State{UUID: "u", State: "IN_PROGRESS", Started: 5, ShardsTotal: 3, ShardsDone: 1, BytesTotal: 900, BytesDone: 300}, nil},
		{"7.10, running", map[string]answer{
			"GET /_snapshot/r/s":         {200, `{"snapshots":[{"snapshot":"s","uuid":"u","state":"IN_PROGRESS"}]}`},
			"GET /_snapshot/r/s/_status": {200, `{"snapshots":[{"shards_stats":{"done":1,"failed":1,"total":3},"stats":{"incremental":{"size_in_bytes":800},"processed":{"size_in_bytes":200},"total":{"size_in_bytes":5000}}}]}`},
		}, State{UUID: "u", State: "IN_PROGRESS", ShardsTotal: 3, ShardsDone: 1, ShardsFailed: 1, BytesTotal: 800, BytesDone: 200}, nil},
		{"7.9, by repository", map[string]answer{"GET /_snapshot/r/s": {200, `{"responses":[{"repository":"r","snapshots":[{"snapshot":"s","uuid":"u","state":"SUCCESS"}]}]}`}},
			State{UUID: "u", State: "SUCCESS"}, nil},
		{"7.9, none, by repository", map[string]answer{"GET /_snapshot/r/s": {200, `{"responses":[{"repository":"r","error":{"type":"snapshot_missing_exception","reason":"[r:s] is missing"}}]}`}}, State{}, fs.ErrNotExist},
		{"none", map[string]answer{"GET /_snapshot/r/s": {404, `{"error":{"type":"snapshot_missing_exception","reason":"[r:s] is missing"},"status":404}`}}, State{}, fs.ErrNotExist},
		{"partial", map[string]answer{"GET /_snapshot/r/s": {200, `{"snapshots":[{"snapshot":"s","uuid":"u","state":"PARTIAL","failures":[{"index":"a","shard_id":1,"reason":"node left"}],"shards":{"total":2,"failed":1,"successful":1}}]}`}},
			State{UUID: "u", State: "PARTIAL", ShardsTotal: 2, ShardsDone: 1, ShardsFailed: 1, Failures: []string{"a[1]: node left"}}, nil},
		{"busy", map[string]answer{"GET /_snapshot/r/s": {503, `{"error":"busy"}`}}, State{}, fault.ErrUnavailable},
	} {
		cluster, _ := opened(t, c.by)
		got, err := cluster.Snapshot(t.Context(), "r", "s")
		if !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		g, w := encoded(t, got), encoded(t, c.want)
		if err == nil && g != w {
			t.Errorf("%s:\n%s, want\n%s", c.name, g, w)
		}
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
