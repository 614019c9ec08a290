package abuse

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/draw"
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

// attack is a repository that costs a reader much more than it has.
type attack struct {
	name  string
	write func(t *testing.T, dir string) // changes a real repository, or fills an empty directory
	empty bool
	daily bool  // with some commands also in make abuse
	legal *bool // whether commands have to work with the metadata of its indices, or to refuse it by the name of its blob; nil: either
}

// reader is a command that reads a repository.
type reader struct {
	name  string
	daily bool
	args  []string
}

// readers returns the commands of both programs that read the repository in dir, each with the state and the target of its own.
func readers(t *testing.T, dir string) []reader {
	t.Helper()
	from := []string{"--repo-uri", dir, "--snapshot-name", "snap1"}
	only := append([]string{"--index-allowlist", "order-check"}, from...)
	state := func() []string { return []string{"--coordinator-file", filepath.Join(t.TempDir(), "state.db")} }
	target := func() []string { return []string{"--target-host", fakeCluster(t)} }
	args := func(name string, parts ...[]string) []string {
		return append(strings.Fields(name), slices.Concat(parts...)...)
	}
	return []reader{
		{"list", false, args("rfsctl snapshot list", from[:2])},
		{"show", true, args("rfsctl snapshot show", from)},
		{"check", false, args("rfsctl snapshot check", from)},
		{"check of the data", false, args("rfsctl snapshot check --read-data-subset 1/1", from)},
		{"diff", false, args("rfsctl snapshot diff --since snap1", from, []string{"--read-documents"})},
		{"extract", false, args("rfsctl snapshot extract", from, []string{"--to", filepath.Join(t.TempDir(), "files")})},
		{"plan of all", false, args("rfsd plan", from, target())},
		{"plan without a target", false, args("rfsd plan --documents", from)},
		{"plan for a version", false, args("rfsd plan --target-version 3.8", from)},
		{"plan", true, args("rfsd plan", only, target())},
		{"verify", false, args("rfsd verify", only, target())},
		{"dry run", false, args("rfsd migrate --discard", only, state())},
		{"dry run that rebuilds sources", true, args("rfsd migrate --discard --rebuild-sources --rebuild-text-from-terms", only, state())},
		{"export", false, args("rfsd migrate", only, state(), []string{"--export-dir", filepath.Join(t.TempDir(), "out")})},
		{"trial run", false, args("rfsd migrate --trial 10", only, target(), state())},
		{"migration", true, args("rfsd migrate", only, target(), state())},
		{"worker", false, args("rfsd worker --session-name s", only, target())},
	}
}

// TestAttackSetKeepsWithinTheBudget runs commands that read a repository on each of the attacks: all of them with RFSD_ATTACKS, else
// some. None takes more memory or time than it may, and none ends by a panic.
func TestAttackSetKeepsWithinTheBudget(t *testing.T) {
	draw.Test(t)
	all := os.Getenv("RFSD_ATTACKS") != ""
	for _, a := range slices.Concat(metadataAttacks(t), listAttacks(t), documentAttacks(t), damages(t)) {
		if !all && !a.daily {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			dir := t.TempDir()
			if !a.empty {
				dir = fixture(t)
			}
			a.write(t, dir)
			for _, r := range readers(t, dir) {
				if !all && !r.daily {
					continue
				}
				began := time.Now()
				e := run(t, patience, nil, r.args[0], r.args[1:]...)
				t.Logf("%s: exit %d, %d MB, %.1f s", r.name, e.code, e.memory>>20, time.Since(began).Seconds())
				said := e.stdout + e.stderr
				if e.late || e.memory > mostMemory || strings.Contains(said, "goroutine ") {
					t.Errorf("%s: ran on %t, %d MB: %.600s", r.name, e.late, e.memory>>20, said)
				}
				if refused := strings.Contains(said, "meta-"); r.daily && a.legal != nil && refused == *a.legal {
					t.Errorf("%s: refused by name %t, exit %d: %.600s", r.name, refused, e.code, said)
				}
			}
		})
	}
}

// metadataAttacks are indices whose metadata is short and holds much. Many fields and aliases are legal and have to work; objects in
// objects beyond what any cluster takes are refused by the name of the blob.
func metadataAttacks(t *testing.T) (all []attack) {
	t.Helper()
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
		{"300,000 fields that are converted", mapping(`"properties":{` + list(`"field_%d":{"type":"string","index":"not_analyzed","norms":{"enabled":false},"include_in_all":false}`, 300_000) + `}`), true, true},
		{"100,000 field aliases", mapping(`"properties":{"o":{"enabled":false},` + list(`"a%d":{"type":"alias","path":"b"}`, 100_000) + `}`), true, true},
		{"100,000 fields that are not indexed", mapping(`"properties":{` + list(`"o%d":{"enabled":false}`, 50_000) + "," + list(`"a%d":{"type":"alias","path":"b"}`, 50_000) + `}`), true, true},
	} {
		all = append(all, attack{name: c.name, daily: !c.night, legal: &c.legal, write: func(t *testing.T, dir string) {
			t.Helper()
			metas, err := filepath.Glob(filepath.Join(filepath.Dir(oneShard(t, dir)), "meta-*.dat"))
			must(t, err)
			writeMetadata(t, metas, deflated(t, strings.NewReader(`{"order-check":{"state":"open","settings":{"index.number_of_shards":"1"},`+c.body+`}}`)))
		}})
	}
	for name, payload := range hostileIndices(t) {
		all = append(all, attack{name: "all indices: " + name, write: func(t *testing.T, dir string) {
			t.Helper()
			metas, err := filepath.Glob(filepath.Join(dir, "indices", "*", "meta-*.dat"))
			must(t, err)
			writeMetadata(t, metas, payload)
		}})
	}
	return all
}

// writeMetadata replaces blobs of metadata of indices.
func writeMetadata(t *testing.T, blobs []string, payload []byte) {
	t.Helper()
	for _, name := range blobs {
		var b blob
		b.begin("index-metadata", 1, false)
		b.Write(payload)
		must(t, os.WriteFile(name, b.end(), 0o600))
	}
}

// listAttacks are catalogs and manifests that list more than there is.
func listAttacks(t *testing.T) (all []attack) {
	t.Helper()
	catalog := func(name string, catalog func(t *testing.T) []byte) {
		all = append(all, attack{name: "catalog: " + name, empty: true, write: func(t *testing.T, dir string) {
			t.Helper()
			must(t, os.WriteFile(filepath.Join(dir, "index-0"), catalog(t), 0o600))
			must(t, os.WriteFile(filepath.Join(dir, "index.latest"), make([]byte, 8), 0o600))
			var info blob
			info.begin("snapshot", 1, false)
			info.WriteString(`{"snapshot":{"name":"snap1","uuid":"u","version_id":7172999,"state":"SUCCESS","indices":[` + list(`"i%d"`, 200_000) + `]}}`)
			must(t, os.WriteFile(filepath.Join(dir, "snap-u.dat"), info.end(), 0o600))
		}})
	}
	for name, b := range hostileCatalogs(t) {
		catalog(name, func(*testing.T) []byte { return b })
	}
	const last = `{"name":"snap1","uuid":"u","state":1,"version":"7.17.29"}`
	catalog("200,000 indices that are missing", func(*testing.T) []byte {
		return []byte(`{"min_version":"7.12.0","snapshots":[` + last + `],"indices":{` + list(`"i%d":{"id":"%[1]d","snapshots":["u"],"shard_generations":["g"]}`, 200_000) + `}}`)
	})
	catalog("300,000 snapshots", func(*testing.T) []byte {
		return []byte(`{"min_version":"7.12.0","snapshots":[` + list(`{"name":"s%d","uuid":"%[1]d","state":1,"version":"7.17.29"}`, 300_000) + `,` + last + `],"indices":{}}`)
	})
	catalog("50,000 equal snapshots", func(*testing.T) []byte {
		return []byte(`{"min_version":"7.12.0","snapshots":[` + strings.Repeat(last+",", 50_000) + last + `],"indices":{}}`)
	})
	files := func(name, list string) {
		all = append(all, attack{name: "manifest: " + name, write: func(t *testing.T, dir string) {
			t.Helper()
			writeManifest(t, oneShard(t, dir), list)
		}})
	}
	files("200,000 commits", list(`{"name":"__%d","physical_name":"segments_%[1]d","length":100}`, 200_000))
	files("1,000,000 files", list(`{"name":"__%d","physical_name":"_%[1]d.cfs","length":100}`, 1_000_000))
	files("a file in 16,000,000 parts", `{"name":"__x","physical_name":"_0.cfs","length":16000000,"part_size":1}`)
	return all
}

// documentAttacks are documents and files of segments that a few bytes make long.
func documentAttacks(t *testing.T) (all []attack) {
	t.Helper()
	for _, c := range []struct {
		name, codec string
		s           source
	}{
		{"2 GB", zstd814, source{`{"s":"`, " ", 2_000_000_000, `"}`}},
		{"250 MB", highData, source{`{"s":"`, " ", 250_000_000, `"}`}},
		{"objects in objects", zstd814, source{"", `{"a":`, 10_000_000, "1"}},
		{"a list without an end", zstd814, source{`{"a":`, "[1,", 30_000_000, "1"}},
	} {
		all = append(all, attack{name: "document: " + c.name, write: func(t *testing.T, dir string) {
			t.Helper()
			files, _ := shardOf(t, c.codec, c.s)
			writeShard(t, oneShard(t, dir), files)
		}})
	}
	small := func(t *testing.T) map[string][]byte {
		t.Helper()
		files, _ := shardOf(t, zstd814, source{`{"s":"`, " ", 100, `"}`})
		return files
	}
	for name := range small(t) {
		for _, version := range []uint32{0, 3, 9, 1 << 31} {
			all = append(all, attack{name: fmt.Sprintf("segment: %s states version %d", name, version), write: func(t *testing.T, dir string) {
				t.Helper()
				files := small(t)
				restated(files[name], version)
				writeShard(t, oneShard(t, dir), files)
			}})
		}
		all = append(all, attack{name: "segment: without " + name, write: func(t *testing.T, dir string) {
			t.Helper()
			files := small(t)
			delete(files, name)
			writeShard(t, oneShard(t, dir), files)
		}})
	}
	return all
}

// restated gives a file of Lucene another version, with the checksum that fits.
func restated(file []byte, version uint32) {
	at := 5 + int(file[4]) // after the name of the codec
	binary.BigEndian.PutUint32(file[at:], version)
	binary.BigEndian.PutUint64(file[len(file)-8:], uint64(crc32.ChecksumIEEE(file[:len(file)-8])))
}

// damages are a real repository in which one blob of each kind is empty, cut or too long.
func damages(t *testing.T) (all []attack) {
	t.Helper()
	for _, kind := range []string{"index-*", "index.latest", "snap-*.dat", "meta-*.dat", "indices/*/meta-*.dat", "indices/*/0/index-*", "indices/*/0/snap-*.dat", "indices/*/0/__*"} {
		for how, cut := range map[string]func(b []byte) []byte{
			"empty":             func([]byte) []byte { return nil },
			"half":              func(b []byte) []byte { return b[:len(b)/2] },
			"one byte short":    func(b []byte) []byte { return b[:len(b)-1] },
			"followed by zeros": func(b []byte) []byte { return append(b, make([]byte, 1000)...) },
			"zeros":             func(b []byte) []byte { return bytes.Repeat([]byte{0}, len(b)) },
		} {
			all = append(all, attack{name: kind + ": " + how, write: func(t *testing.T, dir string) {
				t.Helper()
				names, err := filepath.Glob(filepath.Join(dir, kind))
				must(t, err)
				if len(names) == 0 {
					t.Fatalf("no %s", kind)
				}
				for _, name := range names {
					b, err := os.ReadFile(name)
					must(t, err)
					must(t, os.WriteFile(name, cut(b), 0o600))
				}
			}})
		}
	}
	return all
}
