package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
)

// attack is what a hostile source tries to make the target do.
const attack = `{"delete":{"_index":"victim","_id":"1"}}`

// hostileSources look like bulk actions wherever a line of a body could begin.
func hostileSources() []string {
	sources := []string{
		"{\"a\":1}\n" + attack + "\n",
		"{\"a\":1}\r\n" + attack + "\r\n{}",
		"\n" + attack + "\n",
		"{\"a\":\"x\n" + attack + "\n\"}",
		"{\"a\":\"x\\\n" + attack + "\n\"}",
		"{\"a\":1 // c\n}\n" + attack,
		"{\"a\":1 /* c\n" + attack + "\n*/ }",
		"{\"a\":1 /* c \n" + attack,
		"{\"a\":1 // " + attack + "\n,\"b\":2}",
		"{\"a\":1}\u2028" + attack,
		"{\"a\":1}\x00\n" + attack,
		"\xef\xbb\xbf{\"a\":1}\n" + attack,
		"---\na: |\n  x\n" + attack + "\n",
		"{\"index\":{\"_index\":\"victim\",\"_id\":\"1\"}}\n{\"owned\":true}",
		"",
		"\n\n\n",
	}
	for _, end := range []string{"\n", "\r", "\r\n"} {
		sources = append(sources, "{\"n\":1}"+end+attack+end, "[1]"+end+attack+end, "\"s\""+end+attack+end)
	}
	return sources
}

// TestNoSourceInjectsABulkAction sends sources that hold lines like actions to a real
// cluster, among good documents. Each is one document, or none; nothing else happens.
func TestNoSourceInjectsABulkAction(t *testing.T) {
	for _, version := range draw.Of(t, 1, targets) {
		t.Run(version, func(t *testing.T) {
			n := cluster.OpenSearch(t, version)
			wipe(t, n)
			call(t, n, "PUT", "/victim/_doc/1?refresh=true", map[string]any{"alive": true})
			call(t, n, "PUT", "/hostile", map[string]any{"mappings": map[string]any{"enabled": false}})
			client, err := target.New(t.Context(), target.Config{URL: n.URL})
			must(t, err)
			recorder, err := failed.Open(filepath.Join(t.TempDir(), "failed"), "test", failed.Full)
			must(t, err)
			defer recorder.Close()
			loader := bulk.New(t.Context(), bulk.Options{Sender: client, Recorder: recorder, Index: "hostile", MaxDocs: 5})
			good, ordinal := 0, int64(0)
			send := func(id, source string) {
				d, failure := doc.NewDecoder("hostile", 0).Decode(&lucene.Record{
					Ordinal: ordinal, IDKind: lucene.IDString, ID: []byte(id), HasSource: true, Source: []byte(source),
				})
				ordinal++
				if failure != nil {
					must(t, loader.Fail(t.Context(), *failure))
					return
				}
				d.Index = []byte("hostile")
				must(t, loader.Add(context.Background(), d))
			}
			for i, s := range hostileSources() {
				send(fmt.Sprintf("bad-%d", i), s)
				send(fmt.Sprintf("good-%d", i), fmt.Sprintf(`{"good":%d}`, i))
				good++
			}
			// An id may not do it either.
			send("x\"}}\n"+attack+"\n", `{"good":"id"}`)
			good++
			loader.Advance(ordinal)
			must(t, loader.Flush(t.Context()))

			// Sources are not asked for: one with a comment would make the answer no JSON.
			call(t, n, "POST", "/_refresh", nil)
			var found struct {
				Hits struct {
					Hits []struct {
						Index string `json:"_index"`
						ID    string `json:"_id"`
					} `json:"hits"`
				} `json:"hits"`
			}
			must(t, n.JSON(t.Context(), "POST", "/_search?size=1000&expand_wildcards=all", map[string]any{"_source": false}, &found))
			arrived, alive := 0, 0
			for _, h := range found.Hits.Hits {
				switch {
				case h.Index == "victim" && h.ID == "1":
					alive++
				case h.Index == "hostile":
					arrived++
				default:
					t.Errorf("a document where none was sent: %v", h)
				}
			}
			if v := call(t, n, "GET", "/victim/_doc/1", nil); fmt.Sprint(v["_version"]) != "1" {
				t.Errorf("the victim changed: %v", v)
			}
			counts := loader.Counts()
			if int64(arrived) != counts.Indexed || counts.Live != ordinal {
				t.Errorf("%d documents arrived, counts %+v, %d sent", arrived, counts, ordinal)
			}
			if arrived < good {
				t.Errorf("%d documents arrived, %d were good", arrived, good)
			}
			if alive != 1 {
				t.Error("the victim is gone")
			}
		})
	}
}
