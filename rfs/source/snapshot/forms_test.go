package snapshot

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// deflated, zstandard and lzfStored are the compressions of metadata.
func deflated(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("DFL\x00")
	w, err := flate.NewWriter(&out, 6)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstandard(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

func lzfStored(b []byte) []byte {
	var out []byte
	for part := range slices.Chunk(b, 1000) {
		out = append(out, 'Z', 'V', 0)
		out = binary.BigEndian.AppendUint16(out, uint16(len(part)))
		out = append(out, part...)
	}
	return out
}

func TestMetadataIsTheSameUnderEveryCompression(t *testing.T) {
	m := realRepositories(t)["os3.8.0-templates"]
	want := listing(t, m)
	for name, squeeze := range map[string]func(b []byte) []byte{
		"deflate":        func(b []byte) []byte { return deflated(t, b) },
		"zstd":           func(b []byte) []byte { return zstandard(t, b) },
		"zstd, prefixed": func(b []byte) []byte { return append([]byte("ZSTD\x00"), zstandard(t, b)...) },
		"plain JSON":     func(b []byte) []byte { return b },
	} {
		t.Run(name, func(t *testing.T) {
			c := maps.Clone(m)
			for blob, b := range m {
				if !strings.HasSuffix(blob, ".dat") {
					continue
				}
				payload, err := unframe(codecOf(b), b)
				if err != nil {
					t.Fatal(err)
				}
				text, err := payloadJSON(payload, maxMetadata)
				if err != nil {
					t.Fatal(err)
				}
				c[blob] = frame(codecOf(b), squeeze(text))
			}
			if got := listing(t, c); got != want {
				t.Errorf("another repository:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func codecOf(b []byte) string { return string(b[5 : 5+b[4]]) }

func TestRepositoriesOf1xMayBeCompressedByLZF(t *testing.T) {
	m := realRepositories(t)["1.7.6-templates"]
	want := listing(t, m)
	c := maps.Clone(m)
	for blob, b := range m {
		if json.Valid(b) && !strings.Contains(blob, "/0/") && !strings.Contains(blob, "/1/") {
			c[blob] = lzfStored(b)
		}
	}
	if got := listing(t, c); got != want {
		t.Errorf("another repository:\n%s", got)
	}
}

// A repository that 1.x started and 5.x went on with: the catalog of 5.x names both.
func TestOldSnapshotsAreReadThroughTheCatalogOfALaterVersion(t *testing.T) {
	repositories := realRepositories(t)
	old, middle, later := repositories["1.7.6-templates"], repositories["2.4.6-templates"], repositories["5.6.16-multi-type"]
	both := maps.Clone(later)
	for as, m := range map[string]memory{"v1": old, "v2": middle} {
		for name, b := range m {
			if name != "index" {
				both[strings.ReplaceAll(name, "snap1", as)] = rename(t, name, b, as)
			}
		}
	}
	var catalog map[string]any
	if err := json.Unmarshal(later["index-0"], &catalog); err != nil {
		t.Fatal(err)
	}
	catalog["snapshots"] = append([]any{"v1", map[string]any{"name": "v2", "uuid": "v2"}}, catalog["snapshots"].([]any)...)
	b, err := json.Marshal(catalog)
	if err != nil {
		t.Fatal(err)
	}
	both["index-0"] = b
	c, err := OpenCatalog(t.Context(), both)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ name, version string }{{"v1", "1.7.6"}, {"v2", "2.4.6"}, {"snap1", "5.6.16"}} {
		s, err := c.Snapshot(t.Context(), want.name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Version != want.version || len(s.Indices) == 0 {
			t.Errorf("%s: version %q, %d indices", s.Name, s.Version, len(s.Indices))
		}
		for _, ref := range s.Indices {
			x, err := s.Index(t.Context(), ref.Name)
			if err != nil {
				t.Fatal(err)
			}
			for n := range x.NumShards {
				if _, err := OpenShard(t.Context(), both, x.Locator, n); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// rename gives a blob of snapshot snap1 another snapshot's name within.
func rename(t *testing.T, blob string, b []byte, as string) []byte {
	t.Helper()
	old, name := []byte(`"snap1"`), []byte(`"`+as+`"`)
	switch {
	case strings.Contains(blob, "/__"):
		return b
	case json.Valid(b):
		return bytes.ReplaceAll(b, old, name)
	}
	payload, err := unframe(codecOf(b), b)
	if err != nil {
		t.Fatal(err)
	}
	text, err := payloadJSON(payload, maxMetadata)
	if err != nil {
		t.Fatal(err)
	}
	return frame(codecOf(b), bytes.ReplaceAll(text, old, name))
}

func TestIndexLatestMayBeMissingStaleOrGarbage(t *testing.T) {
	m := realRepositories(t)["os2.19.4-hashed-path"]
	want, err := OpenCatalog(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		repository memory
		warns      bool
	}{
		"missing":        {m.without("index.latest"), false},
		"garbage":        {m.with("index.latest", []byte("garbage")), true},
		"long garbage":   {m.with("index.latest", make([]byte, 1000)), true},
		"stale":          {m.with("index.latest", make([]byte, 8)), true},
		"beyond":         {m.with("index.latest", []byte{0, 0, 0, 0, 0, 0, 0, 9}), true},
		"other index-":   {m.with("index-2x", nil).with("index--5", nil), false},
		"shadowed by 10": {m.without("index.latest").with("index-10", m["index-1"]), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := OpenCatalog(t.Context(), c.repository)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Snapshots, want.Snapshots) || (len(got.Warnings) > 0) != c.warns {
				t.Errorf("generation %d, %d snapshots, warnings %q", got.Generation, len(got.Snapshots), got.Warnings)
			}
		})
	}
}

func TestWhatDoesNotExistIsAnsweredWithWhatDoes(t *testing.T) {
	if _, err := OpenCatalog(t.Context(), memory{"readme.txt": nil}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no repository: %v", err)
	}
	m := realRepositories(t)["os2.19.4-hashed-path"]
	c, err := OpenCatalog(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Snapshot(t.Context(), "none"); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "snap-1, snap-2") {
		t.Errorf("no such snapshot: %v", err)
	}
	s, err := c.Snapshot(t.Context(), "snap-2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Index(t.Context(), "none"); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "hp, hp2, hp3") {
		t.Errorf("no such index: %v", err)
	}
}

func TestIndexMetadataOfEveryForm(t *testing.T) {
	compressed := base64.StdEncoding.EncodeToString(deflated(t, []byte(`{"doc":{"properties":{}}}`)))
	for _, c := range []struct{ name, in, want string }{
		{"flat", `{"settings":{"index.number_of_shards":"2"},"mappings":[{"doc":{}}]}`, `2 [doc {}]`},
		{"without the prefix", `{"settings":{"number_of_shards":3}}`, `3 []`},
		{"nested", `{"settings":{"index":{"number_of_shards":"4","sort":{"field":["a","b"]}}},"mappings":{"_doc":{"properties":{}}}}`, `4 [_doc {"properties":{}}]`},
		{"compressed mapping", `{"settings":{"index.number_of_shards":"1"},"mappings":["` + compressed + `"]}`, `1 [doc {"properties":{}}]`},
		{"several types", `{"settings":{"index.number_of_shards":"1"},"mappings":[{"b":{"x":1}},{"a":{}}]}`, `1 [a {}][b {"x":1}]`},
		{"no mapping", `{"settings":{"index.number_of_shards":"1"},"mappings":null,"unknown":{"x":[1]}}`, `1 []`},
		{"no shards", `{"settings":{}}`, `corrupt`}, {"zero shards", `{"settings":{"index.number_of_shards":"0"}}`, `corrupt`},
		{"absurd shards", `{"settings":{"index.number_of_shards":"99999999"}}`, `corrupt`},
		{"settings are a list", `{"settings":[]}`, `corrupt`}, {"mapping is text", `{"settings":{"number_of_shards":1},"mappings":["?"]}`, `corrupt`},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &Index{Name: "i"}
			err := x.parse("meta.dat", []byte(`{"i":`+c.in+`}`))
			got := fmt.Sprintf("%d ", x.NumShards)
			for _, m := range x.Mappings {
				got += fmt.Sprintf("[%s %s]", m.Type, m.Body)
			}
			if len(x.Mappings) == 0 {
				got += "[]"
			}
			if errors.Is(err, fault.ErrCorrupt) && strings.Contains(err.Error(), "meta.dat") {
				got = "corrupt"
			} else if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestMountsSayWhereTheirDocumentsAre(t *testing.T) {
	m := realRepositories(t)["7.17.29-templates"]
	c, err := OpenCatalog(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(t.Context(), c.Snapshots[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Index(t.Context(), s.Indices[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	m[x.Locator.MetaBlob] = frame(codecIndex, []byte(`{"`+x.Name+`":{"settings":{"index.number_of_shards":"1","index.store.type":"snapshot",
		"index.store.snapshot.snapshot_name":"the-snapshot","index.store.snapshot.repository_name":"the-repository","index.store.snapshot.index_name":"the-index"}}}`))
	_, err = s.Index(t.Context(), x.Name)
	if !errors.Is(err, fault.ErrUnsupported) {
		t.Fatal(err)
	}
	for _, want := range []string{"the-snapshot", "the-repository", "the-index", "migrate"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

func TestVersionsAreReadFromTheirNumbers(t *testing.T) {
	for id, want := range map[int64]string{1070699: "1.7.6", 2040699: "2.4.6", 7100299: "7.10.2", 8190099: "8.19.0",
		8537000: "index version 8537000", 9031000: "index version 9031000"} {
		if got := versionText(id); got != want {
			t.Errorf("%d: %s, want %s", id, got, want)
		}
	}
	for version, want := range map[[3]int64]string{{1, 3, 14}: "1.3.14", {2, 19, 4}: "2.19.4", {3, 8, 0}: "3.8.0"} {
		id := (version[0]*1_000_000 + version[1]*10_000 + version[2]*100 + 99) ^ 0x08000000
		if got := versionText(id); got != want {
			t.Errorf("%d: %s, want %s", id, got, want)
		}
	}
}
