package shards

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TestRebuiltSourcesAreBounded: a source that is made of other fields has the same bound as one that is stored.
func TestRebuiltSourcesAreBounded(t *testing.T) {
	for _, c := range []struct {
		name, dir string
		req       plan.Request
	}{
		{"synthetic", "../../../testing/fixtures/8.19.21-synthetic", plan.Request{}},
		{"synthetic, of every type", "../../source/rebuild/testdata/9.5.3-rebuild", plan.Request{}},
		{"derived", "../../../testing/fixtures/os3.8.0-derived", plan.Request{}},
		{"switched off", "../../source/rebuild/testdata/7.10.2-switched-off", plan.Request{RebuildSources: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := func(most int64) (sent map[string]int, stored int, details []string) {
				sent = map[string]int{}
				r, err := repo.NewDir(c.dir)
				if err != nil {
					t.Fatal(err)
				}
				c.req.SnapshotName, c.req.EmitType, c.req.MultiType = "snap1", plan.EmitAuto, plan.SplitTypes
				plan, err := plan.New(t.Context(), r, c.req)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range plan.Indices {
					for shard := range x.Entry.Shards {
						err := Read(t.Context(), r, x.Entry, shard, nil, Documents{
							Memory: budget.New(1<<30, 0), MaxDocument: most,
							Send: func(d *doc.Document) error {
								if d.Rebuilt {
									sent[x.Name+"/"+string(d.ID)] = len(d.Source)
								} else {
									stored++
								}
								return nil
							},
							Fail: func(f *doc.Failure) error {
								if f.Reason == doc.TooLarge {
									details = append(details, f.Detail)
								}
								return nil
							},
						})
						if err != nil {
							t.Fatal(err)
						}
					}
				}
				return sent, stored, details
			}
			all, before, none := read(0)
			if len(none) != 0 || len(all) == 0 {
				t.Fatalf("%d arrive, %d are too long by default", len(all), len(none))
			}
			lengths := slices.Sorted(maps.Values(all))
			most := lengths[len(lengths)/2]
			sent, stored, details := read(int64(most)) // what is filtered and cannot be completed arrives as it is stored
			for key, size := range sent {
				if size > most {
					t.Errorf("%s arrives with %d bytes of %d", key, size, most)
				}
			}
			if longer := len(all) - len(sent); longer == 0 || len(details)+stored-before < longer {
				t.Errorf("%d of %d documents are not rebuilt, %d are too long, %d more arrive as they are stored", longer, len(all), len(details), stored-before)
			}
			for _, d := range details {
				if !strings.Contains(d, "--max-document-size") {
					t.Errorf("%q names no setting", d)
				}
			}
		})
	}
}

// TestWhatCannotBeRebuiltKeepsTheReason reads keywords as if they were addresses.
func TestWhatCannotBeRebuiltKeepsTheReason(t *testing.T) {
	r, err := repo.NewDir("../../../testing/fixtures/8.19.21-synthetic")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(t.Context(), r, plan.Request{SnapshotName: "snap1", EmitType: plan.EmitAuto, MultiType: plan.SplitTypes})
	if err != nil {
		t.Fatal(err)
	}
	unbuilt := 0
	for _, x := range p.Indices {
		if len(x.Source.Mappings) != 1 {
			continue
		}
		mapping := strings.ReplaceAll(string(x.Source.Mappings[0].Body), `"type":"keyword"`, `"type":"ip"`)
		sources, err := rebuild.New([]byte(mapping), x.Entry.Locator.Created, doc.AppendFormat)
		if err != nil || x.Entry.Rebuild != plan.RebuildSynthetic {
			continue
		}
		b := &builder{sources: map[string]*rebuild.Rebuilder{"": sources}}
		shard, err := snapshot.OpenShard(t.Context(), r, x.Entry.Locator, 0)
		if err != nil {
			t.Fatal(err)
		}
		commit, err := lucene.Open(t.Context(), shard.Directory(), lucene.Options{Values: true})
		if err != nil {
			t.Fatal(err)
		}
		records := commit.Reader(lucene.ReadOptions{Values: true})
		defer records.Close()
		for {
			rec, err := records.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = b.build(t.Context(), rec, func(*lucene.Record) []byte { return nil }, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			if rec.Unbuilt != nil {
				unbuilt++
			}
			if rec.Unbuilt != nil && (rec.HasSource || !strings.Contains(rec.Unbuilt.Error(), "a value that the type cannot have")) {
				t.Errorf("%s document %d: it has a source: %v; %v", x.Name, rec.Ordinal, rec.HasSource, rec.Unbuilt)
			}
		}
	}
	if unbuilt == 0 {
		t.Error("everything was rebuilt")
	}
}

// TestVectorsWithoutAPlaceAreNamed: documents whose vectors cannot be put back count as reduced, and the first of each field is named.
func TestVectorsWithoutAPlaceAreNamed(t *testing.T) {
	r, err := repo.NewDir("../../source/rebuild/testdata/9.5.3-indexed-vectors")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), r, plan.Request{SnapshotName: "snap1", EmitType: plan.EmitAuto, MultiType: plan.SplitTypes})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range plan.Indices {
		reduced, want, log := 0, 0, &strings.Builder{}
		if x.Name == "placeless-stored" {
			want = 2
		}
		s, err := Open(t.Context(), r, x.Entry, 0, nil, Documents{
			Fail: func(f *doc.Failure) error { return errors.New(f.Detail) },
			Send: func(d *doc.Document) error {
				if d.Reduced {
					reduced++
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.documents.log = slog.New(slog.NewTextHandler(log, nil))
		if err := s.Read(t.Context(), 0, s.commit.MaxOrdinal); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(log.String(), "\n"); reduced != want || lines != min(want, 1) || want > 0 && !strings.Contains(log.String(), `field=o.v reason="it is unknown to which of `) {
			t.Errorf("%s: %d documents are reduced, want %d:\n%s", x.Name, reduced, want, log)
		}
	}
}
