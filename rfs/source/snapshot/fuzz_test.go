package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// seeds gives the blobs of all real repositories of which the name fits.
func seeds(f *testing.F, fits func(name string) bool) {
	f.Helper()
	for _, m := range realRepositories(f) {
		for name, b := range m {
			if fits(name) && len(b) < 16<<10 {
				f.Add(b)
			}
		}
	}
}

func mustBeCorrupt(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("%v is not a corruption", err)
	}
}

// bombs are attacks that once took gigabytes or minutes.
func bombs(f *testing.F) map[string][]byte {
	f.Helper()
	deflated := func(b []byte) []byte {
		var out bytes.Buffer
		out.WriteString("DFL\x00")
		w, err := flate.NewWriter(&out, flate.BestCompression)
		if err == nil {
			_, err = w.Write(b)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			f.Fatal(err)
		}
		return out.Bytes()
	}
	entries := deflated([]byte(`{"snapshots":[` + strings.Repeat(`{},`, 50_000) + `{}]}`))
	layers := []byte(`{"snapshots":[]}`)
	for range 300 {
		layers = deflated(layers)
	}
	return map[string][]byte{
		"entries": entries, "nested": deflated(deflated(entries)), "layers": layers, "deep": []byte(strings.Repeat("[", 100_000)),
		"shards": []byte(`{"i":{"settings":{"index.number_of_shards":"1048576","index.version.created":"7100299"}}}`),
	}
}

func FuzzBlobFraming(f *testing.F) {
	seeds(f, func(name string) bool { return strings.HasSuffix(name, ".dat") })
	for _, b := range bombs(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		for _, codec := range []string{codecSnapshot, codecIndex, ""} {
			out, err := decodeBlob("x.dat", codec, b, maxMetadata)
			mustBeCorrupt(t, err)
			if err == nil && !json.Valid(out) {
				t.Fatalf("no JSON: %.200q", out)
			}
		}
	})
}

func FuzzCatalog(f *testing.F) {
	seeds(f, func(name string) bool { return strings.HasPrefix(name, "index") })
	for _, b := range bombs(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		c, err := OpenCatalog(t.Context(), memory{"index-3": b})
		mustBeCorrupt(t, err)
		if err != nil {
			return
		}
		for _, ref := range c.Snapshots {
			s := &Snapshot{Ref: ref, catalog: c}
			mustBeCorrupt(t, s.findIndices(t.Context(), nil))
		}
	})
}

// payloads seeds with the JSON of framed blobs, so that mutations get past the checksum.
func payloads(f *testing.F, fits func(name string) bool) {
	f.Helper()
	for _, m := range realRepositories(f) {
		for name, b := range m {
			if !fits(name) || strings.Contains(name, "/__") {
				continue
			}
			if !json.Valid(b) {
				payload, err := unframe(codecOf(b), b)
				if err != nil {
					f.Fatal(err)
				}
				if b, err = payloadJSON(payload, maxMetadata); err != nil {
					f.Fatal(err)
				}
			}
			f.Add(b)
		}
	}
}

func FuzzShardManifest(f *testing.F) {
	payloads(f, func(name string) bool { return strings.Count(name, "/") >= 3 })
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		for _, parse := range []func(s *Shard) error{
			func(s *Shard) error { return s.parse(b, "snap1") }, func(s *Shard) error { return s.parseAll("p/index-1", b, "snap1") },
		} {
			s := &Shard{Path: "p", Manifest: "p/snap-x.dat", repo: memory{}}
			err := parse(s)
			if err != nil {
				if !errors.Is(err, ErrShardMissing) {
					mustBeCorrupt(t, err)
				}
				continue
			}
			for _, file := range s.Files {
				open, err := s.Directory().Open(file.Name)
				if err != nil {
					t.Fatal(err)
				}
				if blob, _ := open.Locate(max(file.Length-1, 0)); !strings.HasPrefix(blob, "p/") || strings.Contains(blob[2:], "/") {
					t.Fatalf("file %q is in blob %q", file.Name, blob)
				}
				mustBeCorrupt(t, open.ReadAt(t.Context(), make([]byte, min(file.Length, 100)), 0))
			}
		}
	})
}

func FuzzIndexMetadata(f *testing.F) {
	payloads(f, func(name string) bool { return strings.HasPrefix(name, "indices/") && strings.Count(name, "/") == 2 })
	f.Add(bombs(f)["shards"])
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		var names map[string]json.RawMessage
		if json.Unmarshal(b, &names) != nil {
			names = map[string]json.RawMessage{"i": nil}
		}
		for name := range names {
			x := &Index{Name: name}
			err := x.parse("meta.dat", b)
			mustBeCorrupt(t, err)
			if err == nil && (x.NumShards < 1 || x.NumShards > maxShards) {
				t.Fatalf("%d shards", x.NumShards)
			}
		}
	})
}

func FuzzSnapshotInfo(f *testing.F) {
	payloads(f, func(name string) bool { return strings.HasPrefix(name, "snap") && !strings.Contains(name, "/") })
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		s := &Snapshot{Ref: Ref{Name: "s", UUID: "s"}, catalog: &Catalog{}, blob: "snap-s.dat"}
		if err := s.parse(t.Context(), b); !errors.Is(err, fault.ErrUnsupported) {
			mustBeCorrupt(t, err)
		}
	})
}
