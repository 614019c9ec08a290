package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
)

// TestRealTargetsTakeNamesOfEveryKind creates indices whose names look like those of systems
// and data streams.
func TestRealTargetsTakeNamesOfEveryKind(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	for _, version := range draw.Of(t, 1, []string{"2.19.4", "3.8.0"}) {
		t.Run(version, func(t *testing.T) {
			node := cluster.OpenSearch(t, version)
			client, err := target.New(t.Context(), target.Config{URL: node.URL})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := client.Close(); err != nil {
					t.Error(err)
				}
			})
			v, err := client.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			names := []string{".ds-logs-app-default-2024.05.06-000001", ".kibana_7.17.0_001", ".tasks", "プ-日本", "a_b-c+d.e"}
			p := &plan.Plan{}
			for i, name := range names {
				p.Indices = append(p.Indices, plan.Index{Name: name, Entry: plan.Entry{Naming: plan.Naming{Index: name, Types: []string{"_doc"}}}, Source: &snapshot.Index{
					Name:     name,
					Settings: map[string]string{"index.number_of_shards": "1", "index.number_of_replicas": "0", "index.hidden": "true", "index.default_pipeline": "absent", "index.lifecycle.name": "absent"},
					Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(`{"_data_stream_timestamp":{"enabled":true},"dynamic":"strict","properties":{"@timestamp":{"type":"date"},"owner":{"type":"keyword"}}}`)}},
					Aliases:  fmt.Appendf(nil, `{"alias-%d":{"filter":{"term":{"owner":"a"}},"index_routing":"1","search_routing":"1","is_write_index":true}}`, i),
				}})
				t.Cleanup(func() {
					if _, _, err := client.Do(context.WithoutCancel(t.Context()), "DELETE", "/"+url.PathEscape(name), nil, nil); err != nil {
						t.Error(err)
					}
				})
			}
			var out bytes.Buffer
			log := slog.New(slog.NewTextHandler(&out, nil))
			for range 2 {
				on := &creation.Indices{Cluster: client, Version: v, Overrides: metadata.Overrides{Aliases: metadata.AliasesEarly}, Log: log}
				for _, x := range p.Indices {
					if _, err := on.Make(t.Context(), x); err != nil {
						t.Fatal(err)
					}
				}
			}
			for i, name := range names {
				got, err := client.GetIndex(t.Context(), name)
				if err != nil || len(got) != 1 {
					t.Fatalf("%s: %+v, %v", name, got, err)
				}
				if !strings.Contains(string(got[0].Mappings), `"strict"`) || got[0].Settings["index.hidden"] != "true" {
					t.Errorf("%s: %s, %v", name, got[0].Mappings, got[0].Settings)
				}
				if !strings.Contains(string(got[0].Aliases), fmt.Sprintf("alias-%d", i)) || !strings.Contains(string(got[0].Aliases), `"owner"`) {
					t.Errorf("%s: aliases %s", name, got[0].Aliases)
				}
			}
			if n := strings.Count(out.String(), `msg="index created"`); n != len(names) {
				t.Errorf("%d indices created: %s", n, out.String())
			}
		})
	}
}
