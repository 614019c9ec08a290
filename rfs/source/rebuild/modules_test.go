package rebuild_test

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/truth"
)

// TestTypesOfModules reads columns of the type long as if they were unsigned_long and scaled_float, which lie in the same places but
// which no published part of Elasticsearch has: every value, its order and what is malformed must be that of the long. A
// constant_keyword has a number for each time that the value was sent.
func TestTypesOfModules(t *testing.T) {
	for _, c := range []struct {
		name, mapping string
		of            func(v int64) any
	}{
		{"unsigned_long", `{"type":"unsigned_long"`, func(v int64) any { return json.Number(strconv.FormatUint(uint64(v)^1<<63, 10)) }},
		{"scaled_float", `{"type":"scaled_float","scaling_factor":1`, func(v int64) any { return float64(v) }},
		{"constant_keyword", `{"type":"constant_keyword","value":"fix \"😀\""`, func(int64) any { return `fix "😀"` }},
		{"scaled_float by 100", `{"type":"scaled_float","scaling_factor":100`, func(v int64) any { return float64(v) / 100 }},
	} {
		for _, snapshot := range []string{"8.19.21-rebuild", "9.5.3-rebuild"} {
			t.Run(c.name+" of "+snapshot, func(t *testing.T) {
				dir := filepath.Join("testdata", snapshot)
				want, err := truth.Load(false, dir+".ndjson.gz")
				if err != nil {
					t.Fatal(err)
				}
				r, err := repo.NewDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				got := truth.Docs{}
				for _, x := range indicesOf(t, dir, []string{"types", "types-arrays", "types-logsdb"}) {
					body := string(x.Source.Mappings[0].Body)
					changed := strings.Replace(body, `"long":{"type":"long"`, `"long":`+c.mapping, 1)
					if changed == body {
						t.Fatalf("%s has no field long", x.Name)
					}
					x.Source.Mappings[0].Body = []byte(changed)
					readShard(t.Context(), t, r, x, 0, 0, got)
				}
				values := 0
				for k, source := range got {
					if strings.HasPrefix(string(source), "the source cannot be rebuilt") {
						t.Errorf("%v: %s", k, source)
						continue
					}
					w, g := member(t, want[k]), member(t, source)
					if c.name == "constant_keyword" { // it takes no null, and nothing is malformed
						w = slices.DeleteFunc(w, func(v any) bool { _, number := v.(json.Number); return !number })
					}
					if len(w) != len(g) {
						t.Errorf("%v: %v, want those of %v", k, g, w)
						continue
					}
					for i := range w {
						if n, ok := w[i].(json.Number); ok {
							v, err := n.Int64()
							if err != nil {
								t.Fatal(err)
							}
							w[i] = c.of(v)
							values++
						}
						if !same(g[i], w[i]) {
							t.Errorf("%v: %v, want %v", k, g[i], w[i])
						}
					}
				}
				if values < 20 {
					t.Errorf("%d values were compared", values)
				}
			})
		}
	}
}

// member returns the values of the field long.
func member(t *testing.T, source []byte) []any {
	t.Helper()
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(source))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	switch v := m["long"].(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}

// same reports whether a value is another one, a number within the last digit of a double.
func same(got, want any) bool {
	f, ok := want.(float64)
	if !ok {
		return got == want
	}
	n, ok := got.(json.Number)
	if !ok {
		return false
	}
	v, err := n.Float64()
	return err == nil && math.Abs(v-f) <= math.Abs(f)*0x1p-52
}

// TestBytesWithoutTheNumberOfTheirValues: since 9.5 these are not values with their number inside. They are refused, not read as such.
func TestBytesWithoutTheNumberOfTheirValues(t *testing.T) {
	dir := filepath.Join("testdata", "8.19.21-types")
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for created, want := range map[int64]int{9_094_000: 0, 9_095_000: 4} {
		got, refused := truth.Docs{}, 0
		for _, x := range indicesOf(t, dir, []string{"modules"}) {
			x.Entry.Locator.Created = created
			readShard(t.Context(), t, r, x, 0, 0, got)
		}
		for _, source := range got {
			if strings.HasPrefix(string(source), "the source cannot be rebuilt: field wild of type wildcard: wild: bytes without") {
				refused++
			}
		}
		if refused != want {
			t.Errorf("created by %d: %d documents are refused, want %d", created, refused, want)
		}
	}
}
