package shards

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// line is a document as it is sent.
type line struct {
	routing, source string
	keptLast        bool
}

// sentOf returns what a migration of a snapshot sends for an index, by id.
func sentOf(t *testing.T, repository, index string, req plan.Request) map[string]line {
	t.Helper()
	blobs, err := repo.NewDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	req.SnapshotName, req.EmitType = "snap1", plan.EmitAuto
	plan, err := plan.New(t.Context(), blobs, req)
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]line{}
	for _, x := range plan.Indices {
		if x.Name != index {
			continue
		}
		for shard := range x.Entry.Shards {
			err := Read(t.Context(), blobs, x.Entry, shard, nil, Documents{
				Send: func(d *doc.Document) error {
					sent[string(d.ID)] = line{string(d.Routing), string(d.Source), d.KeptLast}
					return nil
				},
				Fail: func(f *doc.Failure) error {
					t.Errorf("%+v", f)
					return nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return sent
}

func TestDuplicateKeysOfOldVersions(t *testing.T) {
	asTheyAre := map[string]line{
		"none":    {"", `{"n":1,"raw":{"a":1,"b":[{"a":2},{"a":3}]}}`, false},
		"two":     {"", `{"n":1, "raw":{},"n":2}`, false},
		"three":   {"", `{"n":1,"n":2,"n":3}`, false},
		"within":  {"", `{"raw":{"a":1,"b":"\u00e9","a":2},"n":4}`, false},
		"list":    {"", `{"raw":{"l":[{"a":1,"a":[1,1]},{"a":5}]},"n":5}`, false},
		"escaped": {"", `{"n":6,"raw":{"a\/b":1,"a\u002fb":2}}`, false},
		"nested":  {"", `{"raw":{"a":{"b":1,"b":2}},"n":7,"raw":{"c":1e3}}`, false},
	}
	last := map[string]line{
		"none":    asTheyAre["none"],
		"two":     {"", `{ "raw":{},"n":2}`, true},
		"three":   {"", `{"n":3}`, true},
		"within":  {"", `{"raw":{"b":"\u00e9","a":2},"n":4}`, true},
		"list":    {"", `{"raw":{"l":[{"a":[1,1]},{"a":5}]},"n":5}`, true},
		"escaped": {"", `{"n":6,"raw":{"a\u002fb":2}}`, true},
		"nested":  {"", `{"n":7,"raw":{"c":1e3}}`, true},
	}
	for _, version := range []string{"2.4.6", "5.6.16"} {
		for keys, want := range map[plan.DuplicateKeys]map[string]line{"": asTheyAre, plan.SendDuplicates: asTheyAre, plan.KeepLastDuplicate: last} {
			t.Run(version+"/"+string(keys), func(t *testing.T) {
				got := sentOf(t, filepath.Join("..", "worker", "testdata", version+"-family"), "duplicates", plan.Request{MultiType: plan.SplitTypes, DuplicateKeys: keys})
				if !maps.Equal(got, want) {
					t.Errorf("sent %+v, want %+v", got, want)
				}
			})
		}
	}
}
