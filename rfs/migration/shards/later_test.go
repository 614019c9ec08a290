package shards

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/truth"
)

// TestAgain_Later passes on what changed between two snapshots: of an index that was written to, of one that vanished, and of one that was
// deleted and made anew.
func TestAgain_Later(t *testing.T) {
	const sent, deleted = "sent", "deleted"
	for _, fixture := range []string{"7.10.2-history", "2.4.6-history", "8.19.21-history", "os2.19.4-history"} {
		path := "../../../testing/fixtures/" + fixture
		blobs, err := repo.Open(t.Context(), path, repo.Options{})
		must(t, err)
		docs := map[string]map[string]truth.Docs{} // by snapshot and index
		for _, snapshot := range []string{"snap-1", "snap-3"} {
			all, err := truth.Load(false, path+"."+snapshot+".ndjson.gz")
			must(t, err)
			docs[snapshot] = map[string]truth.Docs{}
			for k, source := range all {
				if docs[snapshot][k.Index] == nil {
					docs[snapshot][k.Index] = truth.Docs{}
				}
				docs[snapshot][k.Index][truth.Key{ID: k.ID}] = source
			}
		}
		// changes returns what becomes of the documents of an index. All of the latter snapshot are sent if the index was made anew.
		changes := func(index string, anew bool) map[string]string {
			was, is, all := docs["snap-1"][index], docs["snap-3"][index], map[string]string{}
			for k := range was {
				if _, there := is[k]; !there {
					all[index+" "+k.ID] = deleted
				}
			}
			for k, source := range is {
				if before, there := was[k]; anew || !there || !bytes.Equal(before, source) {
					all[index+" "+k.ID] = sent
				}
			}
			return all
		}
		join := func(all ...map[string]string) map[string]string {
			sum := map[string]string{}
			for _, x := range all {
				maps.Copy(sum, x)
			}
			return sum
		}
		every := func(string) string { return "snap-3" }
		for _, c := range []struct {
			name    string
			targets []string
			later   func(index string) string
			want    map[string]string
		}{
			{"changed", []string{"grows"}, every, changes("grows", false)},
			{"vanished", []string{"leaves"}, every, changes("leaves", false)},
			{"made anew", []string{"again"}, every, changes("again", true)},
			{"all", []string{"again", "grows", "leaves"}, every, join(changes("again", true), changes("grows", false), changes("leaves", false))},
			{"another target", []string{"other"}, every, map[string]string{}},
			{"no later round", []string{"again", "grows", "leaves"}, func(string) string { return "" }, map[string]string{}},
			{"a later round of one index", []string{"again", "grows", "leaves"}, func(index string) string {
				if index == "leaves" {
					return "snap-3"
				}
				return ""
			}, changes("leaves", false)},
		} {
			t.Run(fixture+"/"+c.name, func(t *testing.T) {
				p, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap-1", MultiType: plan.UnionTypes, EmitType: plan.EmitAuto, Follow: &plan.Follow{}})
				must(t, err)
				a := &Again{Repo: blobs}
				for _, x := range p.Indices {
					a.Entries = append(a.Entries, x.Entry)
				}
				got := map[string]string{}
				must(t, a.Later(t.Context(), c.targets, c.later, slog.New(slog.DiscardHandler), func(d *doc.Document) {
					key := string(d.Index) + " " + string(d.ID)
					switch {
					case !d.Delete:
						got[key] = sent
					case got[key] == "":
						got[key] = deleted
					}
				}))
				if !maps.Equal(got, c.want) {
					t.Errorf("%d documents, want %d: %v, want %v", len(got), len(c.want), got, c.want)
				}
				if kinds := slices.Compact(slices.Sorted(maps.Values(got))); c.name == "all" && !slices.Equal(kinds, []string{deleted, sent}) {
					t.Errorf("only %q", kinds)
				}
			})
		}
	}
}
