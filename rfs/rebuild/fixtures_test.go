package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/lucene"
	"github.com/rfsd/rfsd/rfs/rebuild"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/snapshot"
	"github.com/rfsd/rfsd/rfs/worker"
	"github.com/rfsd/rfsd/testing/truth"
)

// fixtures is where `make fixtures` puts the snapshots of real clusters.
const fixtures = "../../testing/fixtures"

// TestFixtures rebuilds every document of snapshots of real clusters and compares it with what the cluster answered,
// byte for byte. What is refused is refused by the name of a field that is not understood, and counted.
func TestFixtures(t *testing.T) {
	for _, c := range []struct {
		name    string
		dir     string
		equal   int
		refused []string
	}{
		{"8.19.21-synthetic", fixtures, 220, nil},
		{"8.19.21-rebuild", "testdata", 350, refusals[:1]},
		{"9.5.3-rebuild", "testdata", 357, refusals},
		{"9.5.3-columnar", "testdata", 148, nil},
		{"9.5.3-timeseries-stored", fixtures, 20, nil}, // the columnar index
		{"os3.8.0-derived", fixtures, 56, []string{"lost/0 field m of type match_only_text: its text is kept nowhere"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := truth.Load(false, filepath.Join(c.dir, c.name+".ndjson.gz"))
			if err != nil {
				t.Fatal(err)
			}
			equal := 0
			var refused []string
			for key, got := range rebuilt(t, filepath.Join(c.dir, c.name), 0) {
				if why, ok := strings.CutPrefix(string(got), "the source cannot be rebuilt: "); ok {
					refused = append(refused, fmt.Sprintf("%s/%s %s", key.Index, key.ID, why))
				} else if string(got) == strings.Replace(string(want[key]), twice, once, 1) {
					equal++
				} else {
					t.Errorf("%v:\n got %s\nwant %s", key, got, want[key])
				}
			}
			slices.Sort(refused)
			if equal != c.equal || !slices.Equal(refused, c.refused) {
				t.Errorf("%d documents are equal, want %d; refused:\n%s\nwant\n%s", equal, c.equal, strings.Join(refused, "\n"), strings.Join(c.refused, "\n"))
			}
		})
	}
}

// refusals are documents that are not rebuilt, and why.
var refusals = []string{
	"vectors-indexed/0 field indexed of type dense_vector: vectors that are indexed are not read",
	"vectors-sparse/0 field sparse of type sparse_vector: vectors that lie in term vectors are not read", // in _ignored_source up to 8.19
}

// twice is what the clusters answer for a flattened object, which no reader of JSON keeps whole; once is what they were sent.
const twice, once = `"foo":"1","foo!":"2","foo":{"bar":"3"}`, `"foo":"1","foo!":"2","foo.bar":"3"`

// TestNestedPaths reads the path of every nested document out of the inverted index, where only documents are indexed: lists
// of one, of less than a block, and of several blocks.
func TestNestedPaths(t *testing.T) {
	for _, name := range []string{"8.19.21-rebuild", "9.5.3-rebuild"} {
		dir := filepath.Join("testdata", name)
		r, err := repo.NewDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]map[string]int{}
		for _, x := range indicesOf(t, dir, []string{"nested-deep", "nested-large", "nested-types"}) {
			got[x.Name] = map[string]int{}
			shard, err := snapshotShard(t.Context(), r, x, 0)
			if err != nil {
				t.Fatal(err)
			}
			commit, err := lucene.Open(t.Context(), shard, lucene.Options{Values: true})
			if err != nil {
				t.Fatal(err)
			}
			reader := commit.Reader(lucene.ReadOptions{To: commit.MaxOrdinal, Values: true})
			for {
				rec, err := reader.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				paths, err := rec.Values.Terms(t.Context(), "_nested_path")
				if err != nil {
					t.Fatal(err)
				}
				children, _ := rec.Values.Children()
				for _, c := range children {
					terms, err := paths.Tokens(t.Context(), c.DocID())
					if err != nil || len(terms) != 1 {
						t.Fatalf("%s, document %d: %q, %v", x.Name, c.DocID(), terms, err)
					}
					got[x.Name][string(terms[0].Term)]++
				}
			}
			if err := reader.Close(); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]map[string]int{"nested-deep": {"m": 3, "o.n": 7, "o.n.inner": 6}, "nested-large": {"n": 900}, "nested-types": {"n": 96}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestRanges reads shards in parts of few documents, which begin and end between nested documents and their root.
func TestRanges(t *testing.T) {
	for _, name := range []string{"9.5.3-rebuild", "9.5.3-columnar"} {
		dir := filepath.Join("testdata", name)
		want := rebuilt(t, dir, 0)
		for _, step := range []int64{1, 2, 7} {
			got := rebuilt(t, dir, step)
			if len(got) != len(want) {
				t.Errorf("%s: ranges of %d documents give %d documents, want %d", name, step, len(got), len(want))
			}
			for key, source := range want {
				if string(got[key]) != string(source) {
					t.Errorf("ranges of %d documents, %v:\n got %.500s\nwant %.500s", step, key, got[key], source)
				}
			}
		}
	}
}

// rebuilt rebuilds the sources of all indices that do not store them; with a step, range by range.
func rebuilt(t *testing.T, dir string, step int64) truth.Docs {
	t.Helper()
	ctx := t.Context()
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := worker.NewPlan(ctx, r, worker.Request{SnapshotName: "snap1", MultiType: worker.SplitTypes, EmitType: worker.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	docs := truth.Docs{}
	for _, x := range plan.Indices {
		if x.Entry.Reduced == "" {
			continue
		}
		for n := range x.Entry.Shards {
			readShard(ctx, t, r, x, n, step, docs)
		}
	}
	return docs
}

func readShard(ctx context.Context, t *testing.T, r *repo.Dir, x worker.IndexPlan, n int, step int64, docs truth.Docs) {
	t.Helper()
	shard, err := snapshotShard(ctx, r, x, n)
	if err != nil {
		t.Fatal(err)
	}
	commit, err := lucene.Open(ctx, shard, lucene.Options{Values: true})
	if err != nil {
		t.Fatal(err)
	}
	if step == 0 {
		step = commit.MaxOrdinal
	}
	for from := int64(0); from < commit.MaxOrdinal; from += step {
		readRange(ctx, t, commit.Reader(lucene.ReadOptions{From: from, To: from + step, Values: true}), x, n, docs)
	}
}

func readRange(ctx context.Context, t *testing.T, reader *lucene.Reader, x worker.IndexPlan, n int, docs truth.Docs) {
	t.Helper()
	defer reader.Close()
	b, err := rebuild.New(x.Source.Mappings[0].Body, x.Entry.Locator.Created, doc.AppendFormat)
	switch x.Entry.Rebuild {
	case worker.RebuildColumnar:
		b, err = rebuild.NewColumnar(x.Source.Mappings[0].Body, x.Entry.Locator.Created, doc.AppendFormat)
	case worker.RebuildColumnarStored:
		b, err = rebuild.NewColumnarStored(doc.AppendFormat), nil
	case worker.RebuildDerived:
		b, err = rebuild.NewDerived(x.Source.Mappings[0].Body)
	}
	if err != nil {
		t.Fatal(err)
	}
	decoder := doc.NewDecoder(x.Name, n)
	for {
		rec, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		source, err := b.Append(ctx, nil, rec.Values)
		var unknown *rebuild.Unknown
		if errors.As(err, &unknown) {
			source = []byte(unknown.Error())
		} else if err != nil {
			t.Fatal(err)
		}
		rec.Source, rec.HasSource, rec.HasRecovery = []byte("{}"), true, false
		d, failure := decoder.Decode(rec)
		if failure != nil {
			t.Fatal(failure.Detail)
		}
		docs[truth.Key{Index: x.Name, ID: string(d.ID), Routing: string(d.Routing)}] = source
	}
}

func snapshotShard(ctx context.Context, r *repo.Dir, x worker.IndexPlan, n int) (lucene.Directory, error) {
	shard, err := snapshot.OpenShard(ctx, r, x.Entry.Locator, n)
	if err != nil {
		return nil, err
	}
	return shard.Directory(), nil
}
