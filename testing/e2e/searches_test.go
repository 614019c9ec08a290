package e2e

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/answers"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/truth"
)

// rebuiltSnapshot is a snapshot whose sources are rebuilt, with the documents as its cluster returned them and the cluster's answers to
// searches.
type rebuiltSnapshot struct {
	path    string
	exit    int
	refused map[string]string // indices that the target cannot take, and a part of its message
	absent  []string          // documents that do not arrive, INDEX/ID
	absent3 []string          // likewise, on OpenSearch 3
	other   map[string]string // documents that arrive with another source than the cluster answers, INDEX/ID
	skipped []string          // searches that are not asked: parts of INDEX BODY
	long    bool              // with RFSD_SOURCES=all only
	once    bool              // a value that a document has twice counts once on the target
	unasked bool              // the cluster that wrote it has no queries for its fields
}

// flattenedOnce are documents that clusters answer with a key twice. They arrive as they were sent.
var flattenedOnce = map[string]string{
	"flattened/11":        `{"@timestamp":"2023-11-14T22:13:20.012Z","f":{"foo":"1","foo!":"2","foo.bar":"3"}}`,
	"flattened-logsdb/11": `{"@timestamp":"2023-11-14T22:13:20.012Z","f":{"foo":"1","foo!":"2","foo.bar":"3"}}`,
}

// fieldAndObject are indices with an object whose fields are flat.a and flat.a.b (subobjects: false). OpenSearch has no mapping for it.
var fieldAndObject = map[string]string{"objects": "mapper [flat.a] cannot be changed from type", "objects-logsdb": "mapper [flat.a] cannot be changed from type"}

var rebuiltSnapshots = []rebuiltSnapshot{
	// The cluster itself answers with fewer digits of these moments than it has indexed.
	{path: "testing/fixtures/os3.8.0-derived", exit: 6, absent: []string{"lost/0"}, skipped: []string{`"date_custom"`, `"date_custom_both"`, `"date_print"`, `"date_print_both"`,
		`"nanos"`, `"nanos_both"`, `"nanos_time"`, `"nanos_time_both"`}},
	{path: "rfs/source/rebuild/testdata/8.19.21-rebuild", refused: fieldAndObject, other: flattenedOnce, skipped: sums},
	// The cluster itself finds documents of other moments where nested documents have none. Of fields that it does not index it finds
	// true as less than true, and in time series no document that has one without doc values.
	{path: "rfs/source/rebuild/testdata/9.5.3-rebuild", refused: fieldAndObject, other: flattenedOnce,
		skipped: append([]string{`"@timestamp"`, `{"range":{"boolean":`, `_neither"`}, sums...)},
	// Likewise; and it finds text that is not indexed.
	{path: "rfs/source/rebuild/testdata/9.5.3-columnar", other: flattenedOnce, once: true,
		skipped: append([]string{`{"range":{"boolean":`, `{"range":{"n.boolean":`, `{"range":{"a.b.e":`, `"unindexed"`, `nested-logs {"size":1000,"_source":false,"query":{"term":{"@timestamp"`, `nested-logs {"size":1000,"_source":false,"query":{"range":{"@timestamp"`}, sums...)},
	{path: "rfs/source/rebuild/testdata/8.19.21-indexed-vectors", long: true, other: map[string]string{
		// The cluster answers the first two with the length 1 in place of the last vector, the third with a sparse vector behind a dense one.
		"nested/0": `{"@timestamp":"1970-01-01T00:00:00.001Z","n":[{"t":"a","v":[1.0,2.0]},{"t":"b"},{"v":[3.0,4.0]}],"top":"x","v":[9.0,9.0]}`,
		"nested/5": `{"@timestamp":"1970-01-01T00:00:00.006Z","n":[{"inner":[{"q":"x","w":[1.0,2.0]},{"w":[2.0,3.0]}],"t":"p"},{"inner":{"w":[3.0,4.0]},"v":[4.0,5.0]}]}`,
		"nested/3": `{"@timestamp":"1970-01-01T00:00:00.004Z","m":[{"v":[1.0,2.0]},{"v":[2.0,1.0]}],"n":{"s":{"a":2.0,"b":1.0},"v":[5.0,6.0]}}`,
	}},
	// Which object of an array two vectors belong to is not in the snapshot. The cluster answers them in the first one, which was sent
	// without.
	{path: "rfs/source/rebuild/testdata/9.5.3-indexed-vectors", exit: 6, other: map[string]string{
		"placeless-stored/0": `{"o":[{"k":"a"},{}],"@timestamp":4}`, "placeless-stored/1": `{"o":[{"k":"a"},{"k":"b"},{"k":"c"}],"@timestamp":12}`,
		// It stores 1.5 where 1.50 was sent to a keyword, which it found by 1.50.
	}, skipped: []string{`objects-stored {"size":1000,"_source":false,"query":{"exists":{"field":"k"}}`, `{"term":{"k":"1.50"}}`}},
	{path: "testing/fixtures/9.5.3-vectors", long: true},
	{path: "rfs/source/rebuild/testdata/8.19.21-inner", long: true},
	// 9.5.3 answers keys of flattened objects twice, or without what the snapshot holds of them. On the target they are strings. Of a text
	// with two keywords it answers the normalized one; and it finds documents of other moments where nested documents have none.
	{path: "rfs/source/rebuild/testdata/9.5.3-inner", long: true, other: map[string]string{
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
	}, skipped: []string{`"f.`, `"o.f.`, `"text_both.b"`, `nested-included-logsdb {"size":1000,"_source":false,"query":{"term":{"@timestamp"`,
		`nested-included-logsdb {"size":1000,"_source":false,"query":{"range":{"@timestamp"`}},
	{path: "rfs/source/rebuild/testdata/8.19.21-types", long: true, exit: 6, unasked: true, absent: slices.Concat(histograms, []string{"modules-series/lLprrcIT1-mPFMl0AAABi8_laBY"}),
		absent3: slices.Concat(shapes, []string{"modules-series/lLprrcIT1-mPFMl0AAABi8_laBk"})},
	{path: "rfs/source/rebuild/testdata/9.5.3-types", long: true, exit: 6, unasked: true,
		absent:  slices.Concat(histograms, []string{"modules-series/JFFUy14C9UcX3MnFnsFrpf26bz4kc9chNSlR8JNVVDM_Vu82xH___nQwGpfprWu6lA"}),
		absent3: slices.Concat(shapes, []string{"modules-series/JFFUy14C9UcX3MnFnsFrpf26bz4kc9chNSlR8JNVVDM_Vu82xH___nQwGpfmrWu6lA"})},
}

// histograms are documents with malformed values in arrays, which OpenSearch rejects even if the mapping ignores malformed values. shapes
// are documents with several shapes, which OpenSearch 3.8 rejects.
var (
	histograms = []string{"modules/23", "modules-logsdb/23", "modules-arrays/23", "nested-modules/19", "nested-modules/22"}
	shapes     = []string{"modules/26", "modules-logsdb/26", "modules-arrays/26", "nested-modules/25"}
)

// sums are searches for sums that depend on the order in which doubles are added.
var sums = []string{`"long"`, `"n.long"`}

// counted is the aggregation of how many values there are, in a search and in an answer.
var counted = regexp.MustCompile(`,"count":\{"value_count":\{"field":"[^"]*"\}\}|"count":\{"value":[0-9]+\},`)

// TestSearchesOfRebuiltSourcesGiveTheHitsOfTheSource migrates snapshots whose sources are rebuilt. It compares the source of every
// document on the target with the answer of the cluster that wrote the snapshot, by value, and asks the target what that cluster
// was asked (testing/answers): for every field the documents that have it, its values, and those between two of
// them. Each change sends a draw of the snapshots to one target each; RFSD_SOURCES=all sends all to all.
func TestSearchesOfRebuiltSourcesGiveTheHitsOfTheSource(t *testing.T) {
	type pair struct {
		s       *rebuiltSnapshot
		version string
	}
	var pairs []pair
	for i := range rebuiltSnapshots {
		for j, version := range targets {
			if s := &rebuiltSnapshots[i]; os.Getenv("RFSD_SOURCES") == "all" || !s.long && i%len(targets) == j {
				pairs = append(pairs, pair{s, version})
			}
		}
	}
	if os.Getenv("RFSD_SOURCES") != "all" {
		pairs = draw.Of(t, 2, pairs)
	}
	for _, p := range pairs {
		t.Run(filepath.Base(p.s.path)+" into "+p.version, func(t *testing.T) { p.s.arrives(t, p.version) })
	}
}

func (s *rebuiltSnapshot) arrives(t *testing.T, version string) {
	repository := filepath.Join(Root(), s.path)
	want, err := truth.Load(false, repository+".ndjson.gz")
	must(t, err)
	n, dir := cluster.OpenSearch(t, version), t.TempDir()
	wipe(t, n)
	for index, message := range s.refused {
		if res := RunIn(t, dir, nil, "rfsd", "plan", "--repo-uri", repository, "--snapshot-name", "snap1", "--target-host", n.URL, "--index-allowlist", index); res.Code != 7 || !strings.Contains(res.Stdout, message) {
			t.Errorf("index %s would be refused: exit %d, want %q in\n%s", index, res.Code, message, res.Stdout)
		}
	}
	indices := map[string]bool{}
	for k := range want {
		indices[k.Index] = s.refused[k.Index] == ""
	}
	maps.DeleteFunc(indices, func(_ string, taken bool) bool { return !taken })
	res := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, repository, "--index-allowlist", strings.Join(slices.Sorted(maps.Keys(indices)), ","), "--failed-documents", filepath.Join(dir, "failed"))...)
	if res.Code != s.exit {
		t.Fatalf("exit %d, want %d\n%s", res.Code, s.exit, res.Stderr)
	}
	absent := s.absent
	if strings.HasPrefix(version, "3.") {
		absent = slices.Concat(absent, s.absent3)
	}
	s.compare(t, want, landed(t, n), absent)
	if s.unasked {
		return
	}
	source, err := answers.Load(repository + ".answers.json")
	must(t, err)
	source = slices.DeleteFunc(source, func(a answers.Search) bool {
		text := a.Index + " " + string(a.Body)
		return s.refused[a.Index] != "" || slices.ContainsFunc(s.skipped, func(part string) bool { return strings.Contains(text, part) })
	})
	if s.once {
		for i := range source {
			source[i].Body, source[i].Aggregations = counted.ReplaceAll(source[i].Body, nil), counted.ReplaceAll(source[i].Aggregations, nil)
		}
	}
	client, err := n.Client()
	must(t, err)
	for all := range perIndexOf(source) {
		target, err := answers.Ask(t.Context(), client, all)
		if err != nil {
			t.Errorf("%s: %v", all[0].Index, err)
			continue
		}
		for _, fault := range answers.Differ(all, target) {
			t.Error(fault)
		}
	}
	hits, found := 0, 0
	for _, a := range source {
		if hits += len(a.IDs); len(a.IDs) > 0 {
			found++
		}
	}
	t.Logf("%d searches, %d of them with hits: %d", len(source), found, hits)
}

// compare compares the sources on the target with those that the cluster answered.
func (s *rebuiltSnapshot) compare(t *testing.T, want, got truth.Docs, absent []string) {
	t.Helper()
	for k := range want {
		name := fmt.Sprintf("%s/%s", k.Index, k.ID)
		if s.refused[k.Index] != "" || slices.Contains(absent, name) {
			delete(want, k)
		} else if other, ok := s.other[name]; ok {
			want[k] = []byte(other)
		}
	}
	diff := truth.Compare(want, got)
	for _, k := range append(diff.Examples[truth.Different], diff.Examples[truth.NoTruth]...) {
		t.Errorf("%v:\n got %s\nwant %s", k, got[k], want[k])
	}
	if faults := diff.Faults(); faults != "" {
		t.Error(faults)
	}
	t.Logf("%d documents: %d equal, %d by value", len(want), diff.Of("", truth.Equal), diff.Of("", truth.Values)+diff.Of("", truth.Minified))
}

// perIndexOf yields the searches of each index; they are adjacent.
func perIndexOf(all []answers.Search) iter.Seq[[]answers.Search] {
	return func(yield func([]answers.Search) bool) {
		for len(all) > 0 {
			n := slices.IndexFunc(all, func(a answers.Search) bool { return a.Index != all[0].Index })
			if n < 0 {
				n = len(all)
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}
