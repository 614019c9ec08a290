package main

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/bench/corpus"
)

func TestTheTableIsWrittenBetweenItsLines(t *testing.T) {
	document := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(document, []byte("before\n"+tableBegin+"\nold\n"+tableEnd+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	kept := map[string]measuredPart{"start": {Day: "1 May 2026", Figures: []figure{{Name: "start", Measured: "3 starts", Value: 21, Goal: 30, AtMost: true, Unit: "ms"}}},
		"reading": {Day: "2 May 2026", Figures: []figure{{Name: "LZ4", Beside: "Lucene: 5", Value: 0.95, Goal: 1.2}, {Name: "split", Value: 0.99}}}}
	for range 2 {
		if err := writeTable(document, kept); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		got := string(raw)
		for _, want := range []string{"before\n" + tableBegin, "| LZ4 |  | Lucene: 5 | 0.95 | at least 1.2 | no |", "| split |  |  | 0.99 | none | |", "| start | 3 starts |  | 21 ms | at most 30 ms | yes |",
			"Measured: reading 2 May 2026, start 1 May 2026.", tableEnd + "\nafter\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		if strings.Contains(got, "old") {
			t.Errorf("the former table is left:\n%s", got)
		}
	}
}

// TestAPartDoesNotRemoveOthers holds that a document keeps what this machine has not measured.
func TestAPartDoesNotRemoveOthers(t *testing.T) {
	document := filepath.Join(t.TempDir(), "page.md")
	text := tableBegin + "\n| a |\n\nMeasured: reading 2 May 2026, start 1 May 2026.\n\n" + tableEnd + "\n"
	if err := os.WriteFile(document, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		part string
		kept map[string]measuredPart
		lost string
	}{
		{"reading", nil, "parts start,"},
		{"plan", nil, "parts reading, start,"},
		{"reading", map[string]measuredPart{"start": {}}, ""},
	} {
		err := lostParts(document, c.part, c.kept)
		if c.lost == "" && err != nil || c.lost != "" && (err == nil || !strings.Contains(err.Error(), c.lost)) {
			t.Errorf("%s, kept %v: %v", c.part, c.kept, err)
		}
	}
}

// TestTheWorstCorpusIsTheValueOfARow holds that no corpus hides behind another, and that a row shows all of them.
func TestTheWorstCorpusIsTheValueOfARow(t *testing.T) {
	f := worst("zstd", "9.7.0", []corpusRates{
		{corpus: corpus.Orders, compressed: 2.04, once: 300, other: 200}, {corpus: corpus.Articles, compressed: 3.8, once: 450, other: 500}, {corpus: corpus.Events, compressed: 9.1, once: 800, other: 600},
	}, func(r corpusRates) float64 { return r.once }, 1.2)
	const want = "| zstd | orders (2.0 : 1) 300, articles (3.8 : 1) 450, events (9.1 : 1) 800 MB per CPU second | Lucene 9.7.0: 200, 500, 600 | 0.9 | at least 1.2 | no |"
	if got := f.row(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOnlyTheRowsThatAreAskedForHaveSources(t *testing.T) {
	for only, want := range map[string]int{"": 15, "DEFLATE": 3, "zstd": 9, "LZ4, 39 bytes": 0} {
		if got := len(userSources(only)); got != want {
			t.Errorf("%q: %d sources, want %d", only, got, want)
		}
	}
}

// TestAMultipliedSourceHasTheFilesOfOne holds that each index of the catalog leads to the files of the one that there is.
func TestAMultipliedSourceHasTheFilesOfOne(t *testing.T) {
	s, dir := &source{Repo: t.TempDir()}, t.TempDir()
	files := map[string]string{
		"index-0":                  `{"snapshots":[{"uuid":"s","index_metadata_lookup":{"abc":"m"}}],"indices":{"bench":{"id":"abc","snapshots":["s"]}},"index_metadata_identifiers":{"m":"x"}}`,
		"index.latest":             "0",
		"indices/abc/0/snap-s.dat": "shard",
		"indices/abc/meta-x.dat":   "\x3f\xd7\x6c\x17\x0eindex-metadata\x00\x00\x00\x01 bench footer: 16 bytes",
	}
	for name, content := range files {
		path := filepath.Join(s.Repo, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := multiply(s, dir, 3, true); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "index-0"))
	if err != nil {
		t.Fatal(err)
	}
	var catalog struct {
		Snapshots []struct {
			Lookup map[string]string `json:"index_metadata_lookup"`
		}
		Indices map[string]struct{ ID string }
	}
	if err := json.Unmarshal(raw, &catalog); err != nil || len(catalog.Indices) != 3 {
		t.Fatalf("%s: %v", raw, err)
	}
	for name, x := range catalog.Indices {
		b, err := os.ReadFile(filepath.Join(dir, "indices", x.ID, "0", "snap-s.dat"))
		if err != nil || string(b) != "shard" || catalog.Snapshots[0].Lookup[x.ID] != "m" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	own, err := os.ReadFile(filepath.Join(dir, "indices", catalog.Indices["b0001"].ID, "meta-x.dat"))
	if err != nil || !strings.Contains(string(own), "\x01 b0001") || int(binary.BigEndian.Uint64(own[len(own)-8:])) != int(crc32.ChecksumIEEE(own[:len(own)-8])) {
		t.Errorf("metadata of another index: %q, %v", own, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "index.latest")); err != nil || string(b) != "0" {
		t.Errorf("%q, %v", b, err)
	}
}
