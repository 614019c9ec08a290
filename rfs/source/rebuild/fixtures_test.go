package rebuild_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/truth"
)

// fixtures is where `make fixtures` puts the snapshots of real clusters.
const fixtures = "../../../testing/fixtures"

// TestFixtures rebuilds every document of snapshots of real clusters and compares it with what the cluster answered,
// byte for byte, except for the order of vectors that are put back into stored sources, which change with each start of a cluster. A rejected
// source is reported with the name of the field that is not understood, and counted.
func TestFixtures(t *testing.T) {
	for _, c := range []struct {
		name    string
		dir     string
		equal   int
		refused []string
	}{
		{"8.19.21-synthetic", fixtures, 220, nil},
		{"8.19.21-rebuild", "testdata", 351, nil},
		{"9.5.3-rebuild", "testdata", 359, nil},
		{"9.5.3-columnar", "testdata", 148, nil},
		{"8.19.21-types", "testdata", 149, nil},
		{"9.5.3-types", "testdata", 149, nil},
		{"8.6.2-indexed-vectors", "testdata", 670, nil},
		{"8.11.4-indexed-vectors", "testdata", 670, nil},
		{"8.19.21-indexed-vectors", "testdata", 375, nil},
		{"8.19.21-inner", "testdata", 38, nil},
		{"9.5.3-inner", "testdata", 121, nil},
		{"in-place-9-normalized", "testdata", 28, nil},
		{"9.5.3-indexed-vectors", "testdata", 699, placeless},
		{"9.5.3-timeseries-stored", fixtures, 20, nil}, // the columnar index
		{"os3.8.0-derived", fixtures, 56, []string{"lost/0 field m of type match_only_text: its text is kept nowhere"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := truth.Load(false, filepath.Join(c.dir, c.name+".ndjson.gz"))
			if err != nil {
				t.Fatal(err)
			}
			for name, source := range mistaken[c.name] {
				index, id, _ := strings.Cut(name, "/")
				want[truth.Key{Index: index, ID: id}] = []byte(source)
			}
			if c.name == "8.6.2-indexed-vectors" { // that version answers the bytes of vectors as numbers with a fraction
				for key, source := range want {
					want[key] = bytesOfVectors.ReplaceAllFunc(source, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(".0"), nil) })
				}
			}
			equal := 0
			var refused []string
			for key, got := range rebuilt(t, filepath.Join(c.dir, c.name), 0) {
				if why, ok := strings.CutPrefix(string(got), "the source cannot be rebuilt: "); ok {
					refused = append(refused, fmt.Sprintf("%s/%s %s", key.Index, key.ID, why))
				} else if string(got) == strings.Replace(string(want[key]), twice, once, 1) || strings.HasSuffix(key.Index, "-stored") && sameMembers(t, got, want[key]) {
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

// bytesOfVectors are the vectors whose numbers are bytes.
var bytesOfVectors = regexp.MustCompile(`"byte[^]]*`)

// placeless are documents whose source with vectors the cluster does not answer: they arrive as they are stored, and count as reduced.
var placeless = []string{
	"placeless-stored/0 o.v: it is unknown to which of 2 objects of the source it belongs",
	"placeless-stored/1 o.v: it is unknown to which of 3 objects of the source it belongs",
}

// mistaken are documents that their cluster answers with less than the snapshot holds, or wrongly, INDEX/ID.
var mistaken = map[string]map[string]string{
	// 8.19.21 answers the first two with the length 1 in place of the last vector of a field, and the third with a sparse vector behind a
	// dense one, as if its path were its name.
	"8.19.21-indexed-vectors": {
		"nested/0": `{"@timestamp":"1970-01-01T00:00:00.001Z","n":[{"t":"a","v":[1.0,2.0]},{"t":"b"},{"v":[3.0,4.0]}],"top":"x","v":[9.0,9.0]}`,
		"nested/5": `{"@timestamp":"1970-01-01T00:00:00.006Z","n":[{"inner":[{"q":"x","w":[1.0,2.0]},{"w":[2.0,3.0]}],"t":"p"},{"inner":{"w":[3.0,4.0]},"v":[4.0,5.0]}]}`,
		"nested/3": `{"@timestamp":"1970-01-01T00:00:00.004Z","m":[{"v":[1.0,2.0]},{"v":[2.0,1.0]}],"n":{"s":{"a":2.0,"b":1.0},"v":[5.0,6.0]}}`,
	},
	// The text was sent as "Both" to 9.5.3, which answers with the keyword that has a normalizer, as 9.0.8 does not.
	"in-place-9-normalized": {
		"normalized/1-0":        `{"@timestamp":"1970-01-01T00:00:00.001Z","above":"abc","lower":"B","null_lower":"x","own":"b","stored":"s","text_both":"Both","text_lower":"the text","text_own":"Own Text","text_store":"stored"}`,
		"normalized-logsdb/1-0": `{"@timestamp":"1970-01-01T00:00:00.001Z","above":"abc","lower":"B","null_lower":"x","own":"b","stored":"s","text_both":"Both","text_lower":"the text","text_own":"Own Text","text_store":"stored"}`,
	},
	// 9.5.3 answers a key of a flattened object twice where it has a mapping and is an object, too; without keys that are stored in the mode
	// logsdb; and without those that have a normalizer of the index.
	"9.5.3-inner": {
		"keys/14":          `{"@timestamp":"1970-01-01T00:00:00.015Z","f":{"k.sub":"v","k":"w"}}`,
		"keys-arrays/14":   `{"@timestamp":"1970-01-01T00:00:00.015Z","f":{"k.sub":"v","k":"w"}}`,
		"keys-columnar/14": `{"@timestamp":"1970-01-01T00:00:00.015Z","f":{"k.sub":"v","k":"w"}}`,
		"keys-logsdb/14":   `{"@timestamp":"1970-01-01T00:00:00.015Z","f":{"k.sub":"v","k":"w"}}`,
		"keys-logsdb/4":    `{"@timestamp":"1970-01-01T00:00:00.005Z","f":{"z":"longer than eight","k":["c","longer than six"],"raw":["z","a","z"]}}`,
		"keys-logsdb/5":    `{"@timestamp":"1970-01-01T00:00:00.006Z","f":{"raw":"one","t":["a text","b text"]}}`,
		"keys-logsdb/19":   `{"@timestamp":"1970-01-01T00:00:00.020Z","f":{"k":"k","kept":["q","p"]}}`,
		"keys/21":          `{"@timestamp":"1970-01-01T00:00:00.022Z","f":{"k":"k","own":["p","q"]}}`,
		"keys-arrays/21":   `{"@timestamp":"1970-01-01T00:00:00.022Z","f":{"k":"k","own":["p","q"]}}`,
		"keys-logsdb/21":   `{"@timestamp":"1970-01-01T00:00:00.022Z","f":{"k":"k","own":["p","q"]}}`,
	},
}

// sameMembers reports whether two sources differ in the order of their members at most.
func sameMembers(t *testing.T, a, b []byte) bool {
	t.Helper()
	decode := func(source []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(source))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		return v
	}
	return len(a) == len(b) && reflect.DeepEqual(decode(a), decode(b))
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

// TestFixtures_InRanges reads shards in parts of few documents, which start and end between nested documents and their root.
func TestFixtures_InRanges(t *testing.T) {
	for _, name := range []string{"9.5.3-rebuild", "9.5.3-columnar", "9.5.3-indexed-vectors", "9.5.3-inner"} {
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
	plan, err := plan.New(ctx, r, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
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

func readShard(ctx context.Context, t *testing.T, r *repo.Dir, x plan.Index, n int, step int64, docs truth.Docs) {
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

func readRange(ctx context.Context, t *testing.T, reader *lucene.Reader, x plan.Index, n int, docs truth.Docs) {
	t.Helper()
	defer reader.Close()
	b, err := rebuild.New(x.Source.Mappings[0].Body, x.Entry.Locator.Created, doc.AppendFormat)
	switch x.Entry.Rebuild {
	case plan.RebuildColumnar:
		b, err = rebuild.NewColumnar(x.Source.Mappings[0].Body, x.Entry.Locator.Created, doc.AppendFormat)
	case plan.RebuildColumnarStored:
		b, err = rebuild.NewColumnarStored(doc.AppendFormat), nil
	case plan.RebuildVectors:
		b, err = rebuild.NewPatched(x.Source.Mappings[0].Body, x.Entry.Locator.Created, doc.AppendJSON)
	case plan.RebuildDerived:
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
		source, err := built(ctx, b, rec)
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

// built returns the source of a record that is not stored, or stored without vectors.
func built(ctx context.Context, b *rebuild.Rebuilder, rec *lucene.Record) ([]byte, error) {
	if !b.Patches() {
		return b.Append(ctx, nil, rec.Values)
	}
	source, done, err := b.Patch(ctx, nil, rec.Source, false, rec.Values)
	if !done {
		source = bytes.Clone(rec.Source)
	}
	return source, err
}

func snapshotShard(ctx context.Context, r *repo.Dir, x plan.Index, n int) (lucene.Directory, error) {
	shard, err := snapshot.OpenShard(ctx, r, x.Entry.Locator, n)
	if err != nil {
		return nil, err
	}
	return shard.Directory(), nil
}
