package target_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/testing/cluster"
)

func connect(t *testing.T, conf target.Config) *target.Client {
	t.Helper()
	c, err := target.New(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRealTargetsTakeDocumentsUnchanged(t *testing.T) {
	for _, version := range []string{"1.3.14", "2.19.4", "3.8.0"} {
		t.Run(version, func(t *testing.T) {
			if testing.Short() {
				t.Skip("-short: no real servers")
			}
			node := cluster.OpenSearch(t, version)
			c := connect(t, target.Config{URL: node.URL, CompressRequests: true})
			ctx := t.Context()
			v, err := c.Info(ctx)
			if err != nil || v.Distribution != "opensearch" || v.Number != version {
				t.Fatalf("info %+v, %v", v, err)
			}
			const index = "target-test"
			must(t, node.JSON(ctx, "DELETE", "/"+index+"?ignore_unavailable=true", nil, nil))
			must(t, node.JSON(ctx, "PUT", "/_ingest/pipeline/spoil", `{"processors":[{"set":{"field":"spoiled","value":true}}]}`, nil))
			t.Cleanup(func() {
				if err := node.JSON(t.Context(), "DELETE", "/"+index, nil, nil); err != nil && t.Context().Err() == nil {
					t.Error(err)
				}
			})
			if there, err := c.IndexExists(ctx, index); there || err != nil {
				t.Fatalf("exists: %v, %v", there, err)
			}
			const body = `{"settings":{"index.number_of_replicas":0,"index.default_pipeline":"spoil"},"mappings":{"properties":{"n":{"type":"integer"}}}}`
			must(t, c.CreateIndex(ctx, index, []byte(body)))
			if err := c.CreateIndex(ctx, index, []byte(body)); !target.IsExists(err) || !errors.Is(err, fault.ErrRejected) {
				t.Errorf("created twice: %v", err)
			}
			found, err := c.GetIndex(ctx, index)
			if err != nil || len(found) != 1 || found[0].UUID == "" || found[0].Settings["index.default_pipeline"] != "spoil" {
				t.Errorf("index %+v, %v", found, err)
			}
			r, err := c.Send(ctx, []byte(`{"index":{"_index":"target-test","_id":"1"}}
{"n":1}
{"index":{"_index":"target-test","_id":"2"}}
{"n":"no number"}
`), 2)
			if err != nil || len(r.Refused) != 1 || r.Refused[0].Pos != 1 || r.Refused[0].Status != 400 || !strings.Contains(r.Refused[0].Reason, "no number") {
				t.Errorf("bulk %+v, %v", r, err)
			}
			must(t, c.Refresh(ctx, index))
			if n, err := c.Count(ctx, index); n != 1 || err != nil {
				t.Errorf("count %d, %v", n, err)
			}
			_, source, err := c.Do(ctx, "GET", "/"+index+"/_source/1", nil, nil)
			if err != nil || string(source) != `{"n":1}` {
				t.Errorf("the default pipeline changed the document: %s, %v", source, err)
			}
			var many bytes.Buffer // which is sent to the index itself
			for i := range 2000 {
				fmt.Fprintf(&many, `{"create":{"_index":"target-test","_id":"many-%d"}}`+"\n"+`{"n":%d}`+"\n", i, i)
			}
			if r, err := c.Send(ctx, many.Bytes(), 2000); err != nil || len(r.Refused) > 0 {
				t.Errorf("bulk of short documents %+v, %v", r, err)
			}
			must(t, c.Refresh(ctx, index))
			if n, err := c.Count(ctx, index); n != 2001 || err != nil {
				t.Errorf("count %d, %v", n, err)
			}
			if p, err := c.FinalPipelines(ctx, []string{index, "absent"}); len(p) != 0 || err != nil {
				t.Errorf("final pipelines %v, %v", p, err)
			}
			must(t, node.JSON(ctx, "PUT", "/"+index+"/_settings", `{"index.final_pipeline":"spoil"}`, nil))
			if p, err := c.FinalPipelines(ctx, []string{index, "absent"}); p[index] != "spoil" || err != nil {
				t.Errorf("final pipelines %v, %v", p, err)
			}
			must(t, node.JSON(ctx, "PUT", "/"+index+"/_settings", `{"index.blocks.write":true}`, nil))
			r, err = c.Send(ctx, []byte("{\"index\":{\"_index\":\"target-test\",\"_id\":\"1\"}}\n{}\n"), 1)
			if err != nil || len(r.Refused) != 1 || r.Refused[0].Status != 403 || r.Refused[0].Type != "cluster_block_exception" {
				t.Errorf("write block %+v, %v", r, err)
			}
		})
	}
}

func TestSecuredTarget(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	node := cluster.OpenSearch(t, "2.19.4", cluster.Secured())
	for _, c := range []struct {
		name  string
		conf  target.Config
		want  error
		words string
	}{
		{"user and authority", target.Config{Username: node.Username, Password: node.Password, CACert: node.CACert}, nil, ""},
		{"any certificate", target.Config{Username: node.Username, Password: node.Password, Insecure: true}, nil, ""},
		{"client certificate", target.Config{CACert: node.CACert, ClientCert: node.AdminCert, ClientKey: node.AdminKey}, nil, ""},
		{"unknown authority", target.Config{Username: node.Username, Password: node.Password}, fault.ErrConfig, "not trusted"},
		{"wrong password", target.Config{Username: node.Username, Password: "wr0ng-word", CACert: node.CACert}, fault.ErrConfig, "401 for user admin"},
		{"no user", target.Config{CACert: node.CACert}, fault.ErrConfig, "401 for user anonymous"},
		{"no TLS", target.Config{URL: strings.Replace(node.URL, "https", "http", 1)}, fault.ErrConfig, "give https://"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.conf.URL == "" {
				c.conf.URL = node.URL
			}
			v, err := connect(t, c.conf).Info(t.Context())
			if !errors.Is(err, c.want) || err == nil && v.Number != node.Version {
				t.Fatalf("%+v, %v; want %v", v, err, c.want)
			}
			if err != nil && (!strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "wr0ng-word")) {
				t.Errorf("error states %v, want %q", err, c.words)
			}
		})
	}
}
