package worker

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TestRebuildsBySettings: settings and mapping decide how the sources of an index are rebuilt.
func TestRebuildsBySettings(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]string
		mapping  string
		want     Rebuild
		asked    Rebuild // with --rebuild-sources, where that makes a difference
	}{
		{"stored", nil, `{}`, "", ""},
		{"disabled", nil, `{"_source":{"enabled":false}}`, "", RebuildFields},
		{"disabled by the mode of the mapping", nil, `{"_source":{"mode":"disabled"}}`, "", RebuildFields},
		{"disabled by setting", map[string]string{"index.mapping.source.mode": "disabled"}, `{}`, "", RebuildFields},
		{"filtered", nil, `{"_source":{"includes":["a"]}}`, "", RebuildFields},
		{"synthetic, filtered", map[string]string{"index.mode": "logsdb"}, `{"_source":{"excludes":["a"]}}`, "", RebuildSynthetic},
		{"a mode that is not known, disabled", map[string]string{"index.mode": "holographic"}, `{"_source":{"enabled":false}}`, "", ""},
		{"synthetic by setting", map[string]string{"index.mapping.source.mode": "synthetic"}, `{}`, RebuildSynthetic, RebuildSynthetic},
		{"synthetic by mapping", nil, `{"_source":{"mode":"synthetic"}}`, RebuildSynthetic, RebuildSynthetic},
		{"logsdb that stores sources", map[string]string{"index.mode": "logsdb", "index.mapping.source.mode": "stored"}, `{}`, "", ""},
		{"a mode that is not known", map[string]string{"index.mode": "holographic", "index.mapping.source.mode": "synthetic"}, `{}`, "", ""},
		{"columnar", map[string]string{"index.mode": "columnar"}, `{}`, RebuildColumnar, RebuildColumnar},
		{"columnar logs", map[string]string{"index.mode": "logsdb_columnar", "index.mapping.source.mode": "synthetic"}, `{}`, RebuildColumnar, RebuildColumnar},
		{"columnar, made when indexed", map[string]string{"index.mode": "columnar", "index.mapping.source.mode": "columnar_stored"}, `{}`, RebuildColumnarStored, RebuildColumnarStored},
		{"columnar with a source mode of later versions", map[string]string{"index.mode": "columnar", "index.mapping.source.mode": "holographic"}, `{}`, "", ""},
		{"derived", map[string]string{"index.derived_source.enabled": "true"}, `{}`, RebuildDerived, RebuildDerived},
		{"derived, switched off", map[string]string{"index.derived_source.enabled": "false"}, `{}`, "", ""},
		{"derived, a part of it", map[string]string{"index.derived_source.enabled": "true"}, `{"_source":{"excludes":["a"]}}`, "", ""},
		{"derived without an answer", map[string]string{"index.derived_source.enabled": "true"}, `{"_source":{"enabled":false}}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &snapshot.Index{Settings: c.settings, Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(c.mapping)}}}
			if got := rebuilds(x, ""); got != c.want {
				t.Errorf("rebuilt as %q, want %q", got, c.want)
			}
			if got := rebuilds(x, RebuildFields); got != c.asked {
				t.Errorf("asked: rebuilt as %q, want %q", got, c.asked)
			}
		})
	}
}

// TestRebuiltSourcesAreBounded: a source that is made of other fields has the same bound as one that is stored.
func TestRebuiltSourcesAreBounded(t *testing.T) {
	for _, c := range []struct {
		name, dir string
		req       Request
	}{
		{"synthetic", "../../../testing/fixtures/8.19.21-synthetic", Request{}},
		{"synthetic, of every type", "../../source/rebuild/testdata/9.5.3-rebuild", Request{}},
		{"derived", "../../../testing/fixtures/os3.8.0-derived", Request{}},
		{"switched off", "../../source/rebuild/testdata/7.10.2-switched-off", Request{RebuildSources: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := func(most int64) (sent map[string]int, stored int, details []string) {
				sent = map[string]int{}
				r, err := repo.NewDir(c.dir)
				if err != nil {
					t.Fatal(err)
				}
				c.req.SnapshotName, c.req.EmitType, c.req.MultiType = "snap1", EmitAuto, SplitTypes
				plan, err := NewPlan(t.Context(), r, c.req)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range plan.Indices {
					for shard := range x.Entry.Shards {
						err := ReadShard(t.Context(), r, x.Entry, shard, nil, Documents{
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
	plan, err := NewPlan(t.Context(), r, Request{SnapshotName: "snap1", EmitType: EmitAuto, MultiType: SplitTypes})
	if err != nil {
		t.Fatal(err)
	}
	unbuilt := 0
	for _, x := range plan.Indices {
		mapping := strings.ReplaceAll(string(onlyMapping(x.Source)), `"type":"keyword"`, `"type":"ip"`)
		sources, err := rebuild.New([]byte(mapping), x.Entry.Locator.Created, doc.AppendFormat)
		if err != nil || x.Entry.Rebuild != RebuildSynthetic {
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
	plan, err := NewPlan(t.Context(), r, Request{SnapshotName: "snap1", EmitType: EmitAuto, MultiType: SplitTypes})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range plan.Indices {
		reduced, want, log := 0, 0, &strings.Builder{}
		if x.Name == "placeless-stored" {
			want = 2
		}
		s, err := openReading(t.Context(), r, x.Entry, 0, nil, Documents{
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
		if err := s.read(t.Context(), 0, s.commit.MaxOrdinal); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(log.String(), "\n"); reduced != want || lines != min(want, 1) || want > 0 && !strings.Contains(log.String(), `field=o.v reason="which of `) {
			t.Errorf("%s: %d documents are reduced, want %d:\n%s", x.Name, reduced, want, log)
		}
	}
}
