package creation_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// uuids are the indices of a target by name.
type uuids map[string]string

func (u uuids) IndexUUIDs(_ context.Context, names []string) (map[string]string, error) {
	if u == nil {
		return nil, fault.ErrConfig
	}
	found := map[string]string{}
	for _, n := range names {
		if u[n] != "" {
			found[n] = u[n]
		}
	}
	return found, nil
}

func TestTheTargetIsNotTheSource(t *testing.T) {
	for _, fixture := range []string{"7.10.2-demo", "1.7.6-basic", "9.5.3-basic"} {
		t.Run(fixture, func(t *testing.T) {
			blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", fixture))
			if err != nil {
				t.Fatal(err)
			}
			planned, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
			if err != nil {
				t.Fatal(err)
			}
			cluster, own := clusterOf(t, planned), planned.Indices[0]
			uuid := own.Source.Settings["index.uuid"]
			if uuid == "" {
				t.Fatalf("index %s has no UUID", own.Name)
			}
			for _, c := range []struct {
				name    string
				cluster string
				indices uuids
				renamed bool
				allowed bool
				refused bool
				warns   string
			}{
				{name: "another cluster", cluster: "other", indices: uuids{own.Name: "other"}},
				{name: "a cluster without UUID", cluster: "", indices: uuids{}},
				{name: "the cluster and a name", cluster: cluster, indices: uuids{}, refused: true},
				{name: "the cluster and a name, permitted", cluster: cluster, indices: uuids{}, allowed: true, warns: "--allow-source-as-target"},
				{name: "the cluster and other names", cluster: cluster, indices: uuids{}, renamed: true, warns: "no target index has the name"},
				{name: "an index", cluster: "", indices: uuids{own.Name: uuid}, refused: true},
				{name: "an index under another name", cluster: "other", indices: uuids{"new-" + own.Name: uuid}, renamed: true, refused: true},
				{name: "indices that may not be read", cluster: "other", indices: nil},
				{name: "indices that may not be read, the cluster", cluster: cluster, indices: nil, refused: true},
			} {
				t.Run(c.name, func(t *testing.T) {
					p := *planned
					p.Indices = append([]plan.Index(nil), planned.Indices...)
					for i := range p.Indices {
						if c.renamed {
							p.Indices[i].Entry.Naming.Index = "new-" + p.Indices[i].Entry.Naming.Index
						}
					}
					warning, err := creation.CheckSource(t.Context(), &p, c.cluster, c.indices, c.allowed)
					if errors.Is(err, creation.ErrSourceIsTarget) != c.refused || err != nil && !c.refused {
						t.Errorf("%v", err)
					}
					if c.refused && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), own.Name) || !strings.Contains(err.Error(), "--allow-source-as-target")) {
						t.Errorf("%v", err)
					}
					if !strings.Contains(warning, c.warns) || c.warns == "" && warning != "" {
						t.Errorf("warning %q", warning)
					}
				})
			}
		})
	}
}

// clusterOf is the UUID of the cluster that a snapshot was taken of.
func clusterOf(t *testing.T, plan *plan.Plan) (uuid string) {
	t.Helper()
	sections, err := plan.Source.Global(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"cluster_uuid", "uuid"} {
		if sections[key] != nil && json.Unmarshal(sections[key], &uuid) == nil {
			return uuid
		}
	}
	t.Fatal("the snapshot has no UUID of its cluster")
	return ""
}
