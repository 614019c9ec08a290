package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/draw"
)

// TestEveryVersionTakesDocumentsAndASnapshot boots versions one after the other, each change a draw of these.
func TestEveryVersionTakesDocumentsAndASnapshot(t *testing.T) {
	if os.Getenv("RFSD_E2E") == "" {
		t.Skip("boots ten servers in sequence: RFSD_E2E is not set")
	}
	type server struct{ product, version string }
	var all []server
	for _, product := range []string{"opensearch", "elasticsearch"} {
		for _, version := range Versions(product) {
			all = append(all, server{product, version})
		}
	}
	for _, s := range draw.Of(t, 3, all) {
		t.Run(s.product+" "+s.version, func(t *testing.T) {
			n := give(t, s.product, s.version, []Option{Heap("512m")})
			if n.PID() == 0 || n.Repos == "" {
				t.Fatalf("%+v", n)
			}
			index := "/things/_doc/"
			if major(s.version) < 6 && s.product == "elasticsearch" {
				index = "/things/thing/" // a type may not begin with _ there
			}
			for i := range 3 {
				if err := n.JSON(t.Context(), "PUT", fmt.Sprint(index, i), map[string]int{"n": i}, nil); err != nil {
					t.Fatal(err)
				}
			}
			dir, err := n.Snapshot(t.Context(), "r", "snap1", "things")
			if err != nil {
				t.Fatal(err)
			}
			if found, err := filepath.Glob(filepath.Join(dir, "snap*")); err != nil || len(found) == 0 {
				t.Errorf("no snapshot in %s: %v", dir, err)
			}
		})
	}
}

// manager names the elected node.
func manager(t *testing.T, n *Node) string {
	t.Helper()
	b, err := n.Send(t.Context(), "GET", "/_cat/master?h=node", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func TestAClusterSurvivesTheCrashOfItsManagerAndTakesItBack(t *testing.T) {
	if os.Getenv("RFSD_E2E") == "" {
		t.Skip("boots three servers: RFSD_E2E is not set")
	}
	nodes := OpenSearchNodes(t, "2.19.4", 3)
	elected := manager(t, nodes[0])
	at := slices.IndexFunc(nodes, func(n *Node) bool { return n.name == elected })
	if at < 0 {
		t.Fatalf("%q is none of ours", elected)
	}
	body := map[string]any{"settings": map[string]int{"number_of_shards": 2, "number_of_replicas": 1}}
	if err := nodes[at].JSON(t.Context(), "PUT", "/things?wait_for_active_shards=all", body, nil); err != nil {
		t.Fatal(err)
	}
	nodes[at].Kill()
	nodes[at].Wait()
	other := nodes[(at+1)%3]
	eventually(t, "another manager is elected", func() bool {
		b, err := other.Send(t.Context(), "GET", "/_cat/master?h=node", "", nil)
		return err == nil && strings.TrimSpace(string(b)) != elected
	})
	if err := other.JSON(t.Context(), "PUT", "/things/_doc/1?refresh=true", map[string]int{"n": 1}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := nodes[at].Restart(ctx); err != nil {
		t.Fatal(err)
	}
	var health struct {
		Nodes    json.Number `json:"number_of_nodes"`
		TimedOut bool        `json:"timed_out"`
	}
	if err := nodes[at].JSON(ctx, "GET", "/_cluster/health?wait_for_nodes=3&wait_for_status=green&timeout=180s", nil, &health); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Source struct{ N json.Number } `json:"_source"`
	}
	if err := nodes[at].JSON(ctx, "GET", "/things/_doc/1", nil, &doc); err != nil {
		t.Fatal(err)
	}
	if health.TimedOut || health.Nodes != "3" || doc.Source.N != "1" {
		t.Errorf("%+v, %+v", health, doc)
	}
}

func TestASecuredNodeAsksForThePassword(t *testing.T) {
	if os.Getenv("RFSD_E2E") == "" {
		t.Skip("boots a server: RFSD_E2E is not set")
	}
	n := OpenSearch(t, "2.19.4", Secured())
	b, err := n.Send(t.Context(), "GET", "/_plugins/_security/authinfo", "", nil)
	if err != nil || !strings.Contains(string(b), "all_access") {
		t.Errorf("%s, %v", b, err)
	}
	n.Password = "guessed"
	if b, err := n.Send(t.Context(), "GET", "/", "", nil); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("%s, %v", b, err)
	}
}
