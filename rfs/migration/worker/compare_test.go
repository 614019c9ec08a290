package worker_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/creationtest"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestAVerificationReadsWhatAMigrationSends compares the fates of all documents with those of a run.
func TestAVerificationReadsWhatAMigrationSends(t *testing.T) {
	repository := filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo")
	blobs, err := repo.NewDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", IncludeSystem: true, MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	edit := func(string) shards.DocumentEditor { return migrationtest.Picky{} }
	sent := &migrationtest.Sink{Docs: map[string][32]byte{}}
	sum, err := runTo(t.Context(), t, t.TempDir(), repository, "run.db", sent, edit)
	if err != nil {
		t.Fatal(err)
	}
	arrived := map[string][32]byte{}
	for line, digest := range sent.Docs {
		var action struct {
			Index struct {
				Index   string `json:"_index"`
				ID      string `json:"_id"`
				Routing string `json:"routing"`
			} `json:"index"`
		}
		if err := json.Unmarshal([]byte(line), &action); err != nil {
			t.Fatal(err)
		}
		arrived[action.Index.Index+"/"+action.Index.ID+"/"+action.Index.Routing] = digest
	}
	var live, filtered, unsent int64
	for _, g := range (compare.Comparison{Repo: blobs, Edit: edit}).Groups(plan) {
		for _, u := range g.Units {
			n, err := u.Count(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			live += n
			shard, at := -1, int64(-1)
			err = u.Read(t.Context(), 0, func(d *verify.Document) error {
				if want := fmt.Sprintf("%s/%d", g.Sources[0], d.Shard); want != u.Name || d.Ordinal <= at || len(d.ID) == 0 || !slices.Contains(g.Targets, string(d.Index)) {
					t.Errorf("%s: document %+v after %d", u.Name, d, at)
				}
				shard, at = d.Shard, d.Ordinal
				key := string(d.Index) + "/" + string(d.ID) + "/" + string(d.Routing)
				switch d.Fate {
				case verify.Sent:
					if got, ok := arrived[key]; !ok || got != sha256.Sum256(d.Source) {
						t.Errorf("%s is not what was sent", key)
					}
					delete(arrived, key)
				case verify.Filtered:
					filtered++
				case verify.Unsent:
					if d.Reason != string(doc.BadSource) {
						t.Errorf("%s: reason %q", key, d.Reason)
					}
					unsent++
				}
				return nil
			})
			if err != nil || shard < 0 && n > 0 {
				t.Errorf("%s: %v", u.Name, err)
			}
		}
	}
	if len(arrived) != 0 {
		t.Errorf("%d documents were sent and are not read", len(arrived))
	}
	if filtered == 0 || filtered != sum.Totals.Filtered || unsent == 0 || live == 0 || live < int64(len(sent.Docs))+filtered+unsent {
		t.Errorf("live %d, filtered %d, unsent %d; the run: %+v", live, filtered, unsent, sum.Totals)
	}
	enough := errors.New("enough")
	u := compare.Comparison{Repo: blobs}.Groups(plan)[0].Units[0]
	if err := u.Read(t.Context(), 0, func(*verify.Document) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("a reader that ends it: %v", err)
	}
	gone := plan.Indices[0].Entry
	gone.Locator.IndexID = "gone"
	none := func(*doc.Document) error { return nil }
	if err := shards.Read(t.Context(), blobs, gone, 0, nil, shards.Documents{Send: none}); err == nil {
		t.Error("a shard that is missing was read")
	}
	if n, err := shards.Count(t.Context(), blobs, gone, 0); err == nil {
		t.Errorf("a shard that is missing has %d documents", n)
	}
}

func TestAPlanIsLocatedAsTheMigrationFindsIt(t *testing.T) {
	const excludes = `{"_source":{"excludes":["secret"]}}`
	index := func(name, mappings string) plan.Index {
		return plan.Index{Name: name, Entry: plan.Entry{Naming: plan.Naming{Index: name}}, Source: &snapshot.Index{Name: name, Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(mappings)}}}}
	}
	for _, c := range []struct {
		name      string
		on        migrationtest.Says
		x         plan.Index
		originals bool
		fails     error
	}{
		{"originals are sent where the target leaves out the same", migrationtest.Says{"/a": "", "/a/_mapping": `{"a":{"mappings":` + excludes + `}}`}, index("a", excludes), true, nil},
		{"not where it leaves out other fields", migrationtest.Says{"/a": "", "/a/_mapping": `{"a":{"mappings":{}}}`}, index("a", excludes), false, nil},
		{"nor where the target has no such index", migrationtest.Says{"/a/_mapping": `{"a":{"mappings":` + excludes + `}}`}, index("a", excludes), false, nil},
		{"nor of an index that leaves out nothing", migrationtest.Says{"/a": "", "/a/_mapping": `{"a":{"mappings":{}}}`}, index("a", `{}`), false, nil},
		{"a mapping that cannot be read is an error", migrationtest.Says{"/a": ""}, index("a", excludes), false, fault.ErrRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := &plan.Plan{Indices: []plan.Index{c.x}}
			on := &creation.Indices{Cluster: objects.DryRunCluster{Target: migrationtest.Asker{Says: c.on}}, Requester: c.on, Version: creationtest.OpenSearch2, Log: quiet()}
			if err := on.Locate(t.Context(), plan); !errors.Is(err, c.fails) || (err != nil) != (c.fails != nil) {
				t.Fatalf("%v", err)
			}
			if got := plan.Indices[0].Entry.Originals; got != c.originals {
				t.Errorf("originals are sent: %v", got)
			}
		})
	}
	for _, c := range []struct {
		name string
		on   migrationtest.Says
		want string
	}{
		{"backing indices keep their names", migrationtest.Says{}, ".ds-events-000001 .ds-events-000002"},
		{"and get others where a stream has the name", migrationtest.Says{"/events": "", "/_data_stream/events": migrationtest.StreamThere}, "ds-events-000001 ds-events-000002"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := migrationtest.StreamPlan(t, plan.Request{})
			if err != nil {
				t.Fatal(err)
			}
			on := &creation.Indices{Cluster: objects.DryRunCluster{Target: migrationtest.Asker{Says: c.on}}, Requester: c.on, Version: creationtest.OpenSearch2, Log: quiet()}
			if err := on.Locate(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, x := range plan.Indices {
				names = append(names, x.Entry.Naming.Index)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	taken, err := migrationtest.StreamPlan(t, plan.Request{})
	if err != nil {
		t.Fatal(err)
	}
	taken.Indices = append(taken.Indices, index("ds-events-000001", "{}"))
	says := migrationtest.Says{"/events": "", "/_data_stream/events": migrationtest.StreamThere}
	on := &creation.Indices{Cluster: objects.DryRunCluster{Target: migrationtest.Asker{Says: says}}, Requester: says, Version: creationtest.OpenSearch2, Log: quiet()}
	if err := on.Locate(t.Context(), taken); err == nil {
		t.Error("two indices of the snapshot have one target")
	}
	if taken, err = migrationtest.StreamPlan(t, plan.Request{}); err != nil {
		t.Fatal(err)
	}
	on.Requester = migrationtest.Unavailable{}
	if err := on.Locate(t.Context(), taken); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a target that does not tell its data streams: %v", err)
	}
	absent := &creation.Indices{Cluster: silent{creationtest.NewIndices()}, Log: quiet()}
	if err := absent.Locate(t.Context(), &plan.Plan{Indices: []plan.Index{index("a", "{}")}}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a target that does not answer: %v", err)
	}
}

// silent does not report which indices it has.
type silent struct{ *creationtest.Indices }

func (silent) IndexExists(context.Context, string) (bool, error) {
	return false, fault.ErrUnavailable
}
