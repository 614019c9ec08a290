package truth

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var fixtures = filepath.Join("..", "fixtures")

// accountOf loads the cluster's account of "fixture/snapshot": its own file, otherwise the files of the fixture and of its closed indices.
func accountOf(t *testing.T, snapshot string) Docs {
	t.Helper()
	name, snap, _ := strings.Cut(snapshot, "/")
	files := []string{filepath.Join(fixtures, name+"."+snap+".ndjson.gz")}
	if _, err := os.Stat(files[0]); err != nil {
		files[0] = filepath.Join(fixtures, name+".ndjson.gz")
		closed, err := filepath.Glob(filepath.Join(fixtures, name+".closed*.ndjson.gz"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, closed...)
	}
	docs, err := Load(true, files...)
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func TestTheExpectedCountsAreThoseOfTheClustersAccounts(t *testing.T) {
	expected, err := LoadExpected(fixtures)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for snapshot, indices := range expected {
		name, _, _ := strings.Cut(snapshot, "/")
		seen[name] = true
		held := map[string]int{}
		for k := range accountOf(t, snapshot) {
			held[k.Index]++
		}
		for index, c := range indices {
			if c.Documents() != held[index] {
				t.Errorf("%s: index %s: %d documents expected, the cluster held %d", snapshot, index, c.Documents(), held[index])
			}
			if c.Values > 0 && !mayConvert(snapshot) {
				t.Errorf("%s: index %s: %d documents with the same values only", snapshot, index, c.Values)
			}
		}
		for index := range held {
			if _, ok := indices[index]; !ok {
				t.Errorf("%s: nothing is expected of index %s", snapshot, index)
			}
		}
	}
	entries, err := os.ReadDir(fixtures)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !seen[e.Name()] {
			t.Errorf("nothing is expected of %s", e.Name())
		}
	}
}

// TestDocumentation compares docs/VERSIONS.md with the expected counts; RFSD_WRITE_DOCS=1 updates it.
func TestDocumentation(t *testing.T) {
	expected, err := LoadExpected(fixtures)
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join("..", "..", "docs", "VERSIONS.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	begin := strings.Index(text, "| snapshot |")
	length := strings.Index(text[max(begin, 0):], "\n\n") + 1
	if begin < 0 || length < 1 {
		t.Fatalf("%s has no table", page)
	}
	want := text[:begin] + expected.Table() + text[begin+length:]
	if os.Getenv("RFSD_WRITE_DOCS") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != want {
		t.Errorf("%s is not current: RFSD_WRITE_DOCS=1 go test ./testing/truth -run Documentation", page)
	}
}

func TestCountDemandsBytes(t *testing.T) {
	key := Key{Index: "i", ID: "1"}
	for _, c := range []struct {
		name, snapshot     string
		truth, stored, out Docs
		want               Counts
		fault              string
	}{
		{"equal", "f/s", Docs{key: []byte(`{"a":1}`)}, nil, Docs{key: []byte(`{"a":1}`)}, Counts{Equal: 1}, ""},
		{"minified", "f/s", Docs{key: []byte(`{"a": 1}`)}, nil, Docs{key: []byte(`{"a":1}`)}, Counts{Minified: 1}, ""},
		{"keys in another order", "f/s", Docs{key: []byte(`{"a":1,"b":2}`)}, nil, Docs{key: []byte(`{"b":2,"a":1}`)}, Counts{}, "the cluster held"},
		{"another writing of the number", "f/s", Docs{key: []byte(`{"a":1.0}`)}, nil, Docs{key: []byte(`{"a":1.00}`)}, Counts{}, "the cluster held"},
		{"values where sources were no JSON", "f-sources/s", Docs{key: []byte(`{"a":1,"b":2}`)}, nil, Docs{key: []byte(`{"b":2,"a":1}`)}, Counts{Values: 1}, ""},
		{"as stored", "f/s", Docs{key: nil}, Docs{key: []byte(`{"a": 1}`)}, Docs{key: []byte(`{"a": 1}`)}, Counts{Stored: 1}, ""},
		{"not as stored", "f/s", Docs{key: nil}, Docs{key: []byte(`{"a": 1}`)}, Docs{key: []byte(`{"a":1}`)}, Counts{}, "the cluster held"},
		{"nothing to compare with", "f/s", Docs{key: nil}, nil, Docs{key: []byte(`{"a":1}`)}, Counts{}, "the cluster held"},
		{"absent", "f/s", Docs{key: []byte(`{}`)}, nil, Docs{}, Counts{Absent: 1}, ""},
		{"too many", "f/s", Docs{}, nil, Docs{key: []byte(`{}`)}, Counts{}, "not a document of the cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, fault := Count(c.snapshot, c.truth, c.stored, c.out)
			if got["i"] != c.want || (fault == "") != (c.fault == "") || !strings.Contains(fault, c.fault) {
				t.Errorf("%+v, fault %q", slices.Collect(maps.Values(got)), fault)
			}
		})
	}
}
