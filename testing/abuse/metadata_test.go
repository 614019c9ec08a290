package abuse

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// list returns n texts of the form, which takes a number, with commas between them.
func list(form string, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, form, i)
	}
	return b.String()
}

// nest returns n objects in each other; open is the text before each of them.
func nest(open, innermost string, n int) string {
	return strings.Repeat(open, n) + innermost + strings.Repeat("}}", n)
}

// TestMetadataKeepsWithinTheBudget reads indices whose metadata is short and holds much, with every command that reads it. Many fields
// and aliases are legal and have to work; objects in objects beyond what any cluster takes are refused by the name of the blob.
func TestMetadataKeepsWithinTheBudget(t *testing.T) {
	long := strings.Repeat("n", 4000)
	mapping := func(body string) string { return `"aliases":{},"mappings":{"_doc":{` + body + `}}` }
	for _, c := range []struct {
		name, body string
		legal      bool
		night      bool // of a kind that others have too
	}{
		{"deep, without sources", mapping(`"_source":{"enabled":false},"properties":{` + nest(`"`+long+`":{"properties":{`, `"f":{"type":"keyword"}`, 990) + `}`), false, false},
		{"deep", mapping(`"properties":{` + nest(`"`+long+`":{"properties":{`, `"f":{"type":"keyword"}`, 990) + `}`), false, true},
		{"deep fields of fields", mapping(`"properties":{"f":{"type":"keyword","fields":{` + nest(`"`+long+`":{"type":"keyword","fields":{`, `"f":{"type":"keyword"}`, 990) + `}}}`), false, false},
		{"a wide object of long names, deep", mapping(`"properties":{` + nest(`"`+long+`":{"properties":{`, list(`"f%d":{"type":"keyword"}`, 20_000), 60) + `}`), false, true},
		{"300,000 fields", mapping(`"properties":{` + list(`"field_%d":{"type":"keyword"}`, 300_000) + `}`), true, true},
		{"300,000 fields, without sources", mapping(`"_source":{"enabled":false},"properties":{` + list(`"field_%d":{"type":"keyword"}`, 300_000) + `}`), true, false},
		{"100,000 fields that are converted", mapping(`"properties":{` + list(`"field_%d":{"type":"string","index":"not_analyzed","norms":{"enabled":false},"include_in_all":false}`, 100_000) + `}`), true, true},
		{"150,000 texts with a keyword each", mapping(`"properties":{` + list(`"field_%d":{"type":"text","fields":{"keyword":{"type":"keyword","ignore_above":256}}}`, 150_000) + `}`), true, false},
		{"300,000 fields of a field", mapping(`"properties":{"f":{"type":"keyword","fields":{` + list(`"m%d":{"type":"text"}`, 300_000) + `}}}`), true, true},
		{"100,000 dynamic templates", mapping(`"dynamic_templates":[` + list(`{"t%d":{"match":"*","mapping":{"type":"keyword"}}}`, 100_000) + `]`), true, true},
		{"300,000 aliases", `"mappings":{},"aliases":{` + list(`"alias_%d":{}`, 300_000) + `}`, true, false},
		{"100,000 field aliases", mapping(`"properties":{"o":{"enabled":false},` + list(`"a%d":{"type":"alias","path":"b"}`, 100_000) + `}`), true, true},
		{"100,000 fields that are not indexed", mapping(`"properties":{` + list(`"o%d":{"enabled":false}`, 50_000) + "," + list(`"a%d":{"type":"alias","path":"b"}`, 50_000) + `}`), true, true},
	} {
		if c.night && os.Getenv("RFSD_ENTRIES") == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			dir := fixture(t)
			metas, err := filepath.Glob(filepath.Join(filepath.Dir(oneShard(t, dir)), "meta-*.dat"))
			must(t, err)
			var b blob
			b.begin("index-metadata", 1, false)
			b.Write(deflated(t, strings.NewReader(`{"order-check":{"state":"open","settings":{"index.number_of_shards":"1"},`+c.body+`}}`)))
			packed := b.end()
			for _, meta := range metas {
				must(t, os.WriteFile(meta, packed, 0o600))
			}
			target := fakeCluster(t)
			only := []string{"--repo-uri", dir, "--snapshot-name", "snap1", "--index-allowlist", "order-check"}
			state := filepath.Join(t.TempDir(), "state.db")
			for _, args := range [][]string{
				{"rfsctl", "snapshot", "show", "--repo-uri", dir, "--snapshot-name", "snap1"},
				append([]string{"rfsd", "evaluate", "--target-host", target}, only...),
				append([]string{"rfsd", "migrate", "--discard", "--rebuild-sources", "--coordinator-file", state}, only...),
				append([]string{"rfsd", "migrate", "--target-host", target, "--coordinator-file", state + "2"}, only...),
			} {
				began := time.Now()
				e := run(t, patience, nil, args[0], args[1:]...)
				t.Logf("%s: %d bytes of blob, exit %d, %d MB, %.1f s", args[1], len(packed), e.code, e.memory>>20, time.Since(began).Seconds())
				said := e.stdout + e.stderr
				if e.late || e.memory > mostMemory || strings.Contains(said, "goroutine ") {
					t.Errorf("%q: ran on %t, %d MB: %.600s", args[:3], e.late, e.memory>>20, said)
				}
				if refused := strings.Contains(said, "meta-"); refused == c.legal {
					t.Errorf("%q: refused by name %t, exit %d: %.600s", args[:3], refused, e.code, said)
				}
			}
		})
	}
}
