package shards_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// TestDocumentsAreReadAgainAsTheyWereSent reads every third document of snapshots by its place.
func TestDocumentsAreReadAgainAsTheyWereSent(t *testing.T) {
	fixtures := filepath.Join("..", "..", "..", "testing", "fixtures")
	for _, c := range []struct {
		name, dir string
		req       plan.Request
	}{
		{"types that are split", filepath.Join(fixtures, "1.7.6-basic"), plan.Request{MultiType: plan.SplitTypes}},
		{"types with parents", filepath.Join("..", "worker", "testdata", "5.6.16-family"), plan.Request{MultiType: plan.SplitTypes, ParentJoin: "relation"}},
		{"data streams", filepath.Join(fixtures, "os2.19.4-data-stream"), plan.Request{MultiType: plan.SplitTypes, DataStreams: plan.StreamsCreate}},
		{"sources that are rebuilt", filepath.Join(fixtures, "os3.8.0-derived"), plan.Request{MultiType: plan.SplitTypes}},
		{"many indices", filepath.Join(fixtures, "7.10.2-demo"), plan.Request{MultiType: plan.SplitTypes}},
	} {
		t.Run(c.name, func(t *testing.T) {
			blobs, err := repo.NewDir(c.dir)
			if err != nil {
				t.Fatal(err)
			}
			c.req.SnapshotName, c.req.EmitType = "snap1", plan.EmitAuto
			plan, err := plan.New(t.Context(), blobs, c.req)
			if err != nil {
				t.Fatal(err)
			}
			text := func(d *doc.Document) string { return fmt.Sprintf("%s/%s %q %s", d.Index, d.ID, d.Routing, d.Source) }
			var (
				wanted []redrive.Document
				want   []string
				a      = &shards.Again{Repo: blobs}
				all    = 0
			)
			for _, x := range plan.Indices {
				a.Entries = append(a.Entries, x.Entry)
				for shard := range x.Entry.Shards {
					err := shards.Read(t.Context(), blobs, x.Entry, shard, nil, shards.Documents{
						Send: func(d *doc.Document) error {
							if all++; all%3 == 0 {
								wanted = append(wanted, redrive.Document{Index: string(bytes.Clone(d.Index)), ID: string(d.ID), Shard: shard, Ordinal: d.Ordinal})
								want = append(want, text(d))
							}
							return nil
						},
						Filter: func(*doc.Document) error { return nil }, Fail: func(*doc.Failure) error { return nil },
					})
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if len(wanted) == 0 {
				t.Fatalf("%d documents", all)
			}
			// What is not there: another id at the place, ordinals and shards beyond the last, another index.
			real, first := len(wanted), wanted[0]
			for _, change := range []func(d *redrive.Document){
				func(d *redrive.Document) { d.ID += "x" }, func(d *redrive.Document) { d.Ordinal = 1 << 40 }, func(d *redrive.Document) { d.Ordinal = -1 },
				func(d *redrive.Document) { d.Shard = 1 << 20 }, func(d *redrive.Document) { d.Shard = -1 }, func(d *redrive.Document) { d.Index = "elsewhere" },
			} {
				other := first
				change(&other)
				wanted = append(wanted, other)
			}
			seen := map[int]int{}
			err = a.Read(t.Context(), wanted, func(n int, d *doc.Document) error {
				if seen[n]++; n >= real || text(d) != want[n] {
					t.Errorf("%d: %s, want %+v", n, text(d), wanted[n])
				}
				return nil
			})
			if err != nil || len(seen) != real {
				t.Errorf("%d of %d documents were read again: %v", len(seen), real, err)
			}
			for n, times := range seen {
				if times != 1 {
					t.Errorf("%+v was passed on %d times", wanted[n], times)
				}
			}
			t.Logf("%d of %d documents", real, all)
		})
	}
}

// TestAgain_AForgedEntryReadsNothing: an entry is a record of the coordination store. Documents are read again only from the files of
// the index that it names.
func TestAgain_AForgedEntryReadsNothing(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	other := p.Indices[1].Entry.Locator
	for name, forge := range map[string]func(e *plan.Entry){
		"files of another index":              func(e *plan.Entry) { e.Locator.IndexID = other.IndexID },
		"files and metadata of another index": func(e *plan.Entry) { e.Locator.IndexID, e.Locator.MetaBlob = other.IndexID, other.MetaBlob },
		"files of another index by a path": func(e *plan.Entry) {
			e.Locator.SnapshotUUID = "../../" + other.IndexID + "/0/snap-" + other.SnapshotUUID
		},
		"a list of another index by a path":       func(e *plan.Entry) { e.Locator.Generations = []string{"../../" + other.IndexID + "/0/index-x"} },
		"more shards":                             func(e *plan.Entry) { e.Shards++ },
		"metadata that are not in the repository": func(e *plan.Entry) { e.Locator.MetaBlob = "indices/" + e.Locator.IndexID + "/meta-none.dat" },
	} {
		e := p.Indices[0].Entry
		if forge(&e); name != "more shards" {
			e.Locator.MetaSum, e.Locator.ShardSums = "", nil
		}
		a := &shards.Again{Repo: blobs, Entries: []plan.Entry{e}}
		n := 0
		err := a.Read(t.Context(), []redrive.Document{{Index: e.Naming.Index, ID: "1"}}, func(int, *doc.Document) error { n++; return nil })
		if err == nil || n > 0 {
			t.Errorf("%s: %d documents, %v", name, n, err)
		}
	}
}
