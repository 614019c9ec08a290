package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"

	"github.com/rfsd/rfsd/rfs/source/smile"
)

// Indices that multiply makes: shards of the fixture 7.10.2-multi-index under the metadata of one of its indices.
var (
	wideIndex   = composed{"five-shards", []string{"applogs-2024.01.01/0", "applogs-2024.01.02/0", "applogs-2024.02/0", "aliased-v1/0", "five-shards/3"}, 86}
	narrowIndex = composed{"applogs-2024.01.01", []string{"applogs-2024.01.01/0"}, 20}
)

// composed is an index made of shards of other indices. All of them belong to the same snapshot, so that its shard lists serve.
type composed struct {
	like      string   // the index with the metadata
	shards    []string // INDEX/SHARD of the fixture
	documents int
}

// multiplied is a repository with one snapshot, snap1, of many indices.
type multiplied struct {
	repo           string
	wide, narrow   []string // names: of five shards, and of one
	shards         int
	generations    map[string]string // of the fixture's shards, by INDEX/SHARD
	ids, metaBlobs map[string]string // of the fixture's indices
}

// documents is how many documents the indices hold.
func (m *multiplied) documents(wide, narrow int) int {
	return wide*wideIndex.documents + narrow*narrowIndex.documents
}

// multiply writes a repository of Elasticsearch 7.10.2 whose snapshot has wide indices of five shards and narrow ones of one. Shards
// are hard links to those of a fixture; metadata are JSON in the frame that the cluster writes.
func multiply(t *testing.T, wide, narrow int) *multiplied {
	t.Helper()
	source, dir := fixture(t, "7.10.2-multi-index"), t.TempDir()
	m := &multiplied{repo: dir, shards: 5*wide + narrow, generations: map[string]string{}, ids: map[string]string{}, metaBlobs: map[string]string{}}
	var catalog struct {
		Snapshots []struct {
			UUID   string            `json:"uuid"`
			Lookup map[string]string `json:"index_metadata_lookup"`
		} `json:"snapshots"`
		Indices map[string]struct {
			ID          string   `json:"id"`
			Generations []string `json:"shard_generations"`
		} `json:"indices"`
		Identifiers map[string]string `json:"index_metadata_identifiers"`
	}
	blobs, err := filepath.Glob(filepath.Join(source, "index-*"))
	must(t, err)
	b, err := os.ReadFile(blobs[0])
	must(t, err)
	must(t, json.Unmarshal(b, &catalog))
	snapshot := catalog.Snapshots[0]
	for name, x := range catalog.Indices {
		m.ids[name], m.metaBlobs[name] = x.ID, catalog.Identifiers[snapshot.Lookup[x.ID]]
		for shard, g := range x.Generations {
			m.generations[fmt.Sprintf("%s/%d", name, shard)] = g
		}
	}
	first := map[string]string{} // folder of a shard that is there, by INDEX/SHARD
	indices, lookup, identifiers := map[string]any{}, map[string]string{}, map[string]string{}
	add := func(name string, c composed) {
		id, identifier := fmt.Sprintf("id%020d", len(indices)), fmt.Sprintf("%s-%d", name, len(c.shards))
		folder := filepath.Join(dir, "indices", id)
		var generations []string
		for shard, of := range c.shards {
			generations = append(generations, m.generations[of])
			to := filepath.Join(folder, fmt.Sprint(shard))
			if from, ok := first[of]; ok {
				link(t, from, to)
				continue
			}
			index, number, _ := strings.Cut(of, "/")
			must(t, os.CopyFS(to, os.DirFS(filepath.Join(source, "indices", m.ids[index], number))))
			first[of] = to
		}
		_, meta := unframe(t, filepath.Join(source, "indices", m.ids[c.like], "meta-"+m.metaBlobs[c.like]+".dat"))
		var body map[string]map[string]json.RawMessage
		must(t, json.Unmarshal(meta, &body))
		body[c.like]["aliases"] = json.RawMessage(`{}`)
		writeFramed(t, filepath.Join(folder, "meta-"+name+".dat"), "index-metadata", map[string]any{name: body[c.like]})
		indices[name] = map[string]any{"id": id, "snapshots": []string{snapshot.UUID}, "shard_generations": generations}
		lookup[id], identifiers[identifier] = identifier, name
	}
	for i := range wide {
		m.wide = append(m.wide, fmt.Sprintf("wide-%04d", i))
		add(m.wide[i], wideIndex)
	}
	for i := range narrow {
		m.narrow = append(m.narrow, fmt.Sprintf("narrow-%04d", i))
		add(m.narrow[i], narrowIndex)
	}
	codec, description := unframe(t, filepath.Join(source, "snap-"+snapshot.UUID+".dat"))
	var described map[string]map[string]any
	must(t, json.Unmarshal(description, &described))
	for _, s := range described {
		s["indices"] = append(append([]string{}, m.wide...), m.narrow...)
		s["total_shards"], s["successful_shards"] = m.shards, m.shards
	}
	writeFramed(t, filepath.Join(dir, "snap-"+snapshot.UUID+".dat"), codec, described)
	global := "meta-" + snapshot.UUID + ".dat"
	b, err = os.ReadFile(filepath.Join(source, global))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, global), b, 0o644))
	b, err = json.Marshal(map[string]any{
		"snapshots":                  []any{map[string]any{"name": "snap1", "uuid": snapshot.UUID, "state": 1, "index_metadata_lookup": lookup, "version": "7.10.2"}},
		"indices":                    indices,
		"min_version":                "7.9.0",
		"index_metadata_identifiers": identifiers,
	})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "index-0"), b, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "index.latest"), make([]byte, 8), 0o644))
	return m
}

// link makes a folder of hard links to the files of another.
func link(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.MkdirAll(to, 0o755))
	entries, err := os.ReadDir(from)
	must(t, err)
	for _, e := range entries {
		if e.Type() != fs.ModeDir {
			must(t, os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
		}
	}
}

// unframe returns the codec and the content, as JSON, of a metadata blob that Elasticsearch 7 wrote.
func unframe(t *testing.T, path string) (codec string, content []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	codec = string(b[5 : 5+b[4]])
	content = b[9+len(codec) : len(b)-16]
	if rest, ok := bytes.CutPrefix(content, []byte("DFL\x00")); ok {
		var plain bytes.Buffer
		_, err := plain.ReadFrom(flate.NewReader(bytes.NewReader(rest)))
		must(t, err)
		content = plain.Bytes()
	}
	if smile.Is(content) {
		content, err = smile.AppendJSON(nil, content)
		must(t, err)
	}
	return codec, content
}

// writeFramed writes a metadata blob with header, footer and checksum.
func writeFramed(t *testing.T, path, codec string, content any) {
	t.Helper()
	text, err := json.Marshal(content)
	must(t, err)
	b := append([]byte{0x3F, 0xD7, 0x6C, 0x17, byte(len(codec))}, codec...)
	b = append(binary.BigEndian.AppendUint32(b, 1), text...)
	b = append(b, 0xC0, 0x28, 0x93, 0xE8, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(crc32.ChecksumIEEE(b)))
	must(t, os.WriteFile(path, b, 0o644))
}
