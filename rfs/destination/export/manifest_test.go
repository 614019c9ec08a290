package export

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func manifest(t testing.TB, dir string) Manifest {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func reopen(t testing.TB, d *Dir, dir string, c Compression) *Dir {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return openDir(t, dir, "again", c)
}

func finish(t testing.TB, d *Dir, missing string) {
	t.Helper()
	if err := d.Finish(missing); err != nil {
		t.Fatal(err)
	}
}

// wantManifest compares with what is on disk.
func wantManifest(t testing.TB, dir string, complete bool, documents map[string]int64) {
	t.Helper()
	m := manifest(t, dir)
	var sum, size int64
	for _, e := range m.Files {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(e.Name)))
		if err != nil {
			t.Fatal(err)
		}
		digest := sha256.Sum256(b)
		if n, ok := documents[e.Name]; !ok || n != e.Documents || e.Bytes != int64(len(b)) || e.SHA256 != hex.EncodeToString(digest[:]) {
			t.Errorf("%+v, want %d documents, %d bytes, %x", e, n, len(b), digest)
		}
		sum, size = sum+e.Documents, size+e.Bytes
	}
	if m.Complete != complete || len(m.Files) != len(documents) || m.Documents != sum || m.Bytes != size {
		t.Errorf("manifest %+v, want complete %v and files %v", m, complete, documents)
	}
}

func TestManifest(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, dir string)
	}{
		{"an export is incomplete from its first start on", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			if m := manifest(t, dir); m.Complete || m.ID == "" || m.ID != d.ID() {
				t.Errorf("%+v, id %q", m, d.ID())
			}
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"))
			commit(t, f)
			wantManifest(t, dir, false, nil)
		}},
		{"the id stays, and differs from that of another directory", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			id := d.ID()
			finish(t, d, "")
			if d = reopen(t, d, dir, None); d.ID() != id {
				t.Errorf("id %q, want %q", d.ID(), id)
			}
			if other := openDir(t, t.TempDir(), "w", None); other.ID() == id {
				t.Errorf("two directories have the id %q", id)
			}
		}},
		{"the end lists files of all processes with counts and digests", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", Gzip)
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"), pair("i_a", "1"), pair("i_a", "2"))
			commit(t, f)
			d = reopen(t, d, dir, Zstd)
			f = create(t, d, "i", 0, 700)
			send(t, f, pair("i", "3"), pair("i", "4"), pair("i", "5"))
			commit(t, f)
			commit(t, create(t, d, "empty", 0, 0))
			finish(t, d, "")
			want := map[string]int64{"i/0-0.ndjson.gz": 1, "i_a/0-0.ndjson.gz": 2, "i/0-700.ndjson.zst": 3}
			wantManifest(t, dir, true, want)
			finish(t, reopen(t, d, dir, Zstd), "")
			wantManifest(t, dir, true, want)
		}},
		{"an item that is run again replaces its files in the account", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"), pair("i_a", "1"))
			commit(t, f)
			f = create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"))
			commit(t, f)
			finish(t, d, "")
			wantManifest(t, dir, true, map[string]int64{"i/0-0.ndjson": 1})
		}},
		{"an item that has no documents any more leaves none in the account", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i_a", "1"))
			commit(t, f)
			commit(t, create(t, d, "i", 0, 0))
			finish(t, d, "")
			wantManifest(t, dir, true, map[string]int64{})
		}},
		{"further work makes a complete export incomplete", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			finish(t, d, "")
			create(t, d, "i", 0, 0)
			wantManifest(t, dir, false, nil)
		}},
		{"failed items leave it incomplete with the reason", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"))
			commit(t, f)
			finish(t, d, "1 shard failed")
			wantManifest(t, dir, false, map[string]int64{"i/0-0.ndjson": 1})
			if m := manifest(t, dir); m.Reason != "1 shard failed" {
				t.Errorf("%+v", m)
			}
			create(t, d, "i", 1, 0)
			if m := manifest(t, dir); m.Reason != "" {
				t.Errorf("%+v after more work", m)
			}
		}},
		{"what failed may be done after all", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"))
			commit(t, f)
			finish(t, d, "1 shard failed")
			finish(t, d, "")
			wantManifest(t, dir, true, map[string]int64{"i/0-0.ndjson": 1})
			finish(t, d, "2 shards failed")
			if m := manifest(t, dir); m.Complete || m.Reason != "2 shards failed" {
				t.Errorf("%+v", m)
			}
			finish(t, d, "3 shards failed")
			if m := manifest(t, dir); m.Reason != "3 shards failed" {
				t.Errorf("the reason is the former one: %+v", m)
			}
		}},
		{"files are looked at again only after further work", func(t *testing.T, dir string) {
			files := &sick{}
			d, err := OpenOn(files, dir, "w", None)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			finish(t, d, "")
			files.walk = errors.New("not to be listed")
			finish(t, d, "")
			files.walk = nil
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"))
			commit(t, f)
			finish(t, d, "")
			wantManifest(t, dir, true, map[string]int64{"i/0-0.ndjson": 1})
		}},
		{"work after items failed is in the account", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			for n, index := range []string{"i", "j"} {
				f := create(t, d, index, 0, 0)
				send(t, f, pair(index, "1"))
				commit(t, f)
				finish(t, d, "1 shard failed")
				if m := manifest(t, dir); len(m.Files) != n+1 || m.Documents != int64(n+1) {
					t.Errorf("%+v", m)
				}
			}
		}},
		{"files that changed since are listed anew, for the same reason, too", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"))
			commit(t, f)
			finish(t, d, "1 shard failed")
			if err := os.Remove(filepath.Join(dir, "i", "0-0.ndjson")); err != nil {
				t.Fatal(err)
			}
			finish(t, reopen(t, d, dir, None), "1 shard failed")
			wantManifest(t, dir, false, map[string]int64{})
		}},
		{"a damaged note of an item is an error by name", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"))
			commit(t, f)
			for _, text := range []string{"{", "[1]", ""} {
				if err := os.WriteFile(filepath.Join(dir, ".rfsd", "items", "i", "0-0.json"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := d.Finish("1 shard failed"); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "0-0.json") {
					t.Errorf("%q: %v", text, err)
				}
			}
		}},
		{"a file that is cut off is listed as it is where items failed", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"))
			commit(t, f)
			if err := os.Truncate(filepath.Join(dir, "i", "0-0.ndjson"), 3); err != nil {
				t.Fatal(err)
			}
			finish(t, d, "1 shard failed")
			if m := manifest(t, dir); len(m.Files) != 1 || m.Files[0] != (Entry{Name: "i/0-0.ndjson", Bytes: 3}) {
				t.Errorf("%+v", m)
			}
		}},
		{"the note of an item names each folder once, in order", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			for _, index := range []string{"i_b", "i_a", "i_b"} {
				f := create(t, d, "i", 0, 0)
				send(t, f, pair(index, "1"))
				commit(t, f)
			}
			n, err := d.readNote(filepath.Join(dir, ".rfsd", "items", "i", "0-0.json"))
			if err != nil || !slices.Equal(n.Former, []string{"i", "i_a", "i_b"}) {
				t.Errorf("%+v, %v", n, err)
			}
		}},
		{"files that are gone or cut off are an error, also when all was done before", func(t *testing.T, dir string) {
			d := openDir(t, dir, "w", None)
			f := create(t, d, "i", 0, 0)
			send(t, f, pair("i", "1"), pair("i", "2"))
			commit(t, f)
			finish(t, d, "")
			path := filepath.Join(dir, "i", "0-0.ndjson")
			if err := os.Truncate(path, 3); err != nil {
				t.Fatal(err)
			}
			d = reopen(t, d, dir, None)
			if err := d.Finish(""); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "i/0-0.ndjson") {
				t.Errorf("cut off: %v", err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			d = reopen(t, d, dir, None)
			if err := d.Finish(""); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "i/0-0.ndjson") {
				t.Errorf("gone: %v", err)
			}
			finish(t, d, "1 shard failed") // its item may have failed between note and file
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, t.TempDir()) })
	}
}

func TestDamagedManifestIsRefused(t *testing.T) {
	digest := strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"not JSON":              {`{`, fault.ErrCorrupt},
		"no format":             {`{"id":"x"}`, fault.ErrCorrupt},
		"no id":                 {`{"rfsd_export":1}`, fault.ErrCorrupt},
		"of a later rfsd":       {`{"rfsd_export":2,"id":"x"}`, fault.ErrUnsupported},
		"a name that leads up":  {`{"rfsd_export":1,"id":"x","files":[{"name":"../a.ndjson"}]}`, fault.ErrCorrupt},
		"an unclean name":       {`{"rfsd_export":1,"id":"x","files":[{"name":"a//b.ndjson"}]}`, fault.ErrCorrupt},
		"no name":               {`{"rfsd_export":1,"id":"x","files":[{}]}`, fault.ErrCorrupt},
		"negative bytes":        {`{"rfsd_export":1,"id":"x","files":[{"name":"a","bytes":-1}]}`, fault.ErrCorrupt},
		"negative documents":    {`{"rfsd_export":1,"id":"x","files":[{"name":"a","documents":-1}]}`, fault.ErrCorrupt},
		"a digest that is none": {`{"rfsd_export":1,"id":"x","files":[{"name":"a","sha256":"` + digest[1:] + `"}]}`, fault.ErrCorrupt},
		"bytes that are text":   {`{"rfsd_export":1,"id":"x","files":[{"name":"a","bytes":"7"}]}`, fault.ErrCorrupt},
		"a file twice":          {`{"rfsd_export":1,"id":"x","files":[{"name":"a"},{"name":"a"}]}`, fault.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseManifest([]byte(c.text)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ManifestName), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, "w", None); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), dir) {
				t.Errorf("opened: %v", err)
			}
		})
	}
	if _, err := ParseManifest([]byte(`{"rfsd_export":1,"id":"x","files":[{"name":"a","sha256":"` + digest + `"},{"name":"b"}]}`)); err != nil {
		t.Error(err)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"rfsd_export":1,"id":"x","complete":true,"files":[{"name":"i/0-0.ndjson","bytes":7,"documents":1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		m, err := ParseManifest(b)
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported) || err == nil && m.ID == "" {
			t.Fatalf("%+v, %v", m, err)
		}
	})
}
