package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// contract is what holds for exports in every place.
var contract = []struct {
	name string
	test func(t *testing.T, h home)
}{
	{"an item becomes a file when it is committed", func(t *testing.T, h home) {
		for c, ext := range map[Compression]string{None: "", Gzip: ".gz", Zstd: ".zst", "gzip:1": ".gz", "zstd:19": ".zst"} {
			index := "logs-" + strings.ReplaceAll(string(c), ":", "-")
			x, err := h.enter(t.Context(), "w", c, true)
			if err != nil {
				t.Fatal(err)
			}
			f := create(t, x, index, 2, 700)
			send(t, f, pair(index, "1"), pair(index, "2"))
			send(t, f, pair(index, "3"))
			name := index + "/2-700.ndjson" + ext
			if _, there := tree(t, h)[name]; there {
				t.Errorf("%s: the file is there before the commit", c)
			}
			commit(t, f)
			commit(t, f)
			if got, want := tree(t, h)[name], pair(index, "1")+pair(index, "2")+pair(index, "3"); got != want {
				t.Errorf("%s: %q, want %q", c, got, want)
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{"documents land in the folder of their index", func(t *testing.T, h home) {
		f := create(t, enter(t, h, "w", None), "i", 0, 0)
		send(t, f, pair("i_a", "1"), pair("i_b", "1"), pair("i_b", "2"), pair("i", "9"), pair("i_a", "3"), pair("i", "10"))
		commit(t, f)
		wantTree(t, h, map[string]string{
			"i/0-0.ndjson": pair("i", "9") + pair("i", "10"), "i_a/0-0.ndjson": pair("i_a", "1") + pair("i_a", "3"), "i_b/0-0.ndjson": pair("i_b", "1") + pair("i_b", "2"),
		})
	}},
	{"running an item again replaces the files of its first run", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i_a", "1"), pair("i_b", "1"), pair("i", "1"))
		commit(t, f)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		// The second run hands off before the documents of i_b and i, and compresses.
		f = create(t, enter(t, h, "w2", Gzip), "i", 0, 0)
		send(t, f, pair("i_a", "1"))
		commit(t, f)
		wantTree(t, h, map[string]string{"i_a/0-0.ndjson.gz": pair("i_a", "1")})
	}},
	{"Abort leaves the files of earlier runs", func(t *testing.T, h home) {
		d := enter(t, h, "w", Zstd)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"))
		commit(t, f)
		if err := f.Abort(); err != nil {
			t.Fatal(err)
		}
		g := create(t, d, "i", 0, 0)
		send(t, g, pair("i", "2"))
		if err := g.Abort(); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Send(t.Context(), []byte(pair("i", "3")), 1); err == nil {
			t.Error("an aborted file takes documents")
		}
		if left := unpublished(t, h); len(left) > 0 {
			t.Errorf("left by aborted attempts: %v", left)
		}
		wantTree(t, h, map[string]string{"i/0-0.ndjson.zst": pair("i", "1")})
	}},
	{"an ended context stops a file for now", func(t *testing.T, h home) {
		f := create(t, enter(t, h, "w", None), "i", 0, 0)
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := f.Send(ended, []byte(pair("i", "1")), 1); !errors.Is(err, context.Canceled) {
			t.Errorf("send: %v", err)
		}
		send(t, f, pair("i", "2"))
		if err := f.Commit(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("commit: %v", err)
		}
		if there := tree(t, h); there["i/0-0.ndjson"] != "" {
			t.Errorf("committed all the same: %v", there)
		}
		commit(t, f)
		wantTree(t, h, map[string]string{"i/0-0.ndjson": pair("i", "2")})
	}},
	{"attempts that ended are forgotten", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		for n, end := range []func(*File) error{func(f *File) error { return f.Commit(t.Context()) }, (*File).Abort} {
			f := create(t, d, "i", n, 0)
			send(t, f, pair("i", "1"))
			if err := end(f); err != nil || len(d.current) != 0 {
				t.Errorf("%v, %d attempts in progress", err, len(d.current))
			}
		}
	}},
	{"a writer that lost an item publishes nothing", func(t *testing.T, h home) {
		late, now := share(t, h, "late"), share(t, h, "now")
		may := held
		f := try(t, late, func() error { return may() }, "of the late one")
		may = lost
		commit(t, try(t, now, held, "right"))
		if err := f.Commit(t.Context()); !errors.Is(err, fault.ErrLeaseLost) {
			t.Errorf("published: %v", err)
		}
		if err := f.Abort(); err != nil {
			t.Error(err)
		}
		if _, err := late.Create(t.Context(), "i", 0, 0, lost); err == nil {
			commit(t, try(t, now, held, "right"))
		}
		wantTree(t, h, map[string]string{sharedFile: pair("i", "right")})
	}},
	{"the manifest lists the files of all writers", func(t *testing.T, h home) {
		one, two := share(t, h, "one"), share(t, h, "two")
		commit(t, try(t, one, held, "a"))
		f, err := two.Create(t.Context(), "i", 1, 0, held)
		if err != nil {
			t.Fatal(err)
		}
		send(t, f, pair("i", "b"), pair("i", "c"))
		commit(t, f)
		for _, d := range []*Export{one, two} { // each process that finds no work left ends the export
			if err := d.Finish(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		}
		read := func() Manifest { return manifest(t, h) }
		if m := read(); !m.Complete || m.Documents != 3 || len(m.Files) < 2 {
			t.Errorf("%+v", m)
		}
		again := try(t, one, held, "a2") // an operator has opened an item again; two ended the export last
		if m := read(); m.Complete {
			t.Errorf("complete while a file is written: %+v", m)
		}
		commit(t, again)
		if err := two.Finish(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if m := read(); !m.Complete || m.Documents != 3 {
			t.Errorf("%+v", m)
		}
	}},
	{"manifest: an export is incomplete from its first start on", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		if m := manifest(t, h); m.Complete || m.ID == "" || m.ID != d.ID() {
			t.Errorf("%+v, id %q", m, d.ID())
		}
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"))
		commit(t, f)
		wantManifest(t, h, false, nil)
	}},
	{"manifest: the id stays", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		id := d.ID()
		finish(t, d, "")
		if d = reenter(t, d, h, None); d.ID() != id {
			t.Errorf("id %q, want %q", d.ID(), id)
		}
	}},
	{"manifest: the end lists files of all processes with counts and digests", func(t *testing.T, h home) {
		d := enter(t, h, "w", Gzip)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"), pair("i_a", "1"), pair("i_a", "2"))
		commit(t, f)
		d = reenter(t, d, h, Zstd)
		f = create(t, d, "i", 0, 700)
		send(t, f, pair("i", "3"), pair("i", "4"), pair("i", "5"))
		commit(t, f)
		commit(t, create(t, d, "empty", 0, 0))
		finish(t, d, "")
		want := map[string]int64{"i/0-0.ndjson.gz": 1, "i_a/0-0.ndjson.gz": 2, "i/0-700.ndjson.zst": 3}
		wantManifest(t, h, true, want)
		finish(t, reenter(t, d, h, Zstd), "")
		wantManifest(t, h, true, want)
	}},
	{"manifest: an item that is run again replaces its files in the account", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"), pair("i_a", "1"))
		commit(t, f)
		f = create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"))
		commit(t, f)
		finish(t, d, "")
		wantManifest(t, h, true, map[string]int64{"i/0-0.ndjson": 1})
	}},
	{"manifest: an item that has no documents any more leaves none in the account", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i_a", "1"))
		commit(t, f)
		commit(t, create(t, d, "i", 0, 0))
		finish(t, d, "")
		wantManifest(t, h, true, map[string]int64{})
	}},
	{"manifest: further work makes a complete export incomplete", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		finish(t, d, "")
		create(t, d, "i", 0, 0)
		wantManifest(t, h, false, nil)
	}},
	{"manifest: failed items leave it incomplete with the reason", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"))
		commit(t, f)
		finish(t, d, "1 shard failed")
		wantManifest(t, h, false, map[string]int64{"i/0-0.ndjson": 1})
		if m := manifest(t, h); m.Reason != "1 shard failed" {
			t.Errorf("%+v", m)
		}
		create(t, d, "i", 1, 0)
		if m := manifest(t, h); m.Reason != "" {
			t.Errorf("%+v after more work", m)
		}
	}},
	{"manifest: what failed may be done after all", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"))
		commit(t, f)
		finish(t, d, "1 shard failed")
		finish(t, d, "")
		wantManifest(t, h, true, map[string]int64{"i/0-0.ndjson": 1})
		finish(t, d, "2 shards failed")
		if m := manifest(t, h); m.Complete || m.Reason != "2 shards failed" {
			t.Errorf("%+v", m)
		}
		finish(t, d, "3 shards failed")
		if m := manifest(t, h); m.Reason != "3 shards failed" {
			t.Errorf("the reason is the former one: %+v", m)
		}
	}},
	{"manifest: work after items failed is in the account", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		for n, index := range []string{"i", "j"} {
			f := create(t, d, index, 0, 0)
			send(t, f, pair(index, "1"))
			commit(t, f)
			finish(t, d, "1 shard failed")
			if m := manifest(t, h); len(m.Files) != n+1 || m.Documents != int64(n+1) {
				t.Errorf("%+v", m)
			}
		}
	}},
	{"manifest: files that changed since are listed anew, for the same reason, too", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"))
		commit(t, f)
		finish(t, d, "1 shard failed")
		h.put(t, only(t, h), nil)
		finish(t, reenter(t, d, h, None), "1 shard failed")
		wantManifest(t, h, false, map[string]int64{})
	}},
	{"manifest: a damaged note of an item is an error by name", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"))
		commit(t, f)
		for _, text := range []string{"{", "[1]", ""} {
			h.put(t, noteName(item{"i", "0-0"}), []byte(text))
			if err := d.Finish(t.Context(), "1 shard failed"); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "0-0.json") {
				t.Errorf("%q: %v", text, err)
			}
		}
	}},
	{"manifest: a file that is cut off is listed as it is where items failed", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"))
		commit(t, f)
		cut(t, h)
		finish(t, d, "1 shard failed")
		if m := manifest(t, h); len(m.Files) != 1 || m.Files[0] != (Entry{Name: only(t, h), Bytes: 3}) {
			t.Errorf("%+v", m)
		}
	}},
	{"manifest: files that are gone or cut off are an error, also when all was done before", func(t *testing.T, h home) {
		d := enter(t, h, "w", None)
		f := create(t, d, "i", 0, 0)
		send(t, f, pair("i", "1"), pair("i", "2"))
		commit(t, f)
		finish(t, d, "")
		name := only(t, h)
		cut(t, h)
		d = reenter(t, d, h, None)
		if err := d.Finish(t.Context(), ""); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("cut off: %v", err)
		}
		h.put(t, name, nil)
		d = reenter(t, d, h, None)
		if err := d.Finish(t.Context(), ""); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("gone: %v", err)
		}
		finish(t, d, "1 shard failed") // its item may have failed between note and file
	}},
}

func keepsTheContract(t *testing.T, place func(t *testing.T) home) {
	t.Helper()
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) { c.test(t, place(t)) })
	}
	for _, c := range overlaps {
		t.Run("attempts: "+c.name, func(t *testing.T) {
			h := place(t)
			x := enter(t, h, "w", None)
			lost := create(t, x, "i", 0, 0)
			send(t, lost, pair("i", "1"), pair("i_a", "1"))
			next := create(t, x, "i", 0, 0)
			send(t, next, pair("i", "1"), pair("i", "2"))
			c.test(t, lost, next)
			wantTree(t, h, c.want)
			if left := unpublished(t, h); len(left) > 0 {
				t.Errorf("left by attempts that ended: %v", left)
			}
		})
	}
}

func TestDirectory_KeepsTheContract(t *testing.T) {
	keepsTheContract(t, func(t *testing.T) home { return dirHome(t.TempDir()) })
}

func TestBucket_KeepsTheContract(t *testing.T) {
	for name, size := range map[string]int64{"one object": objectSize, "an object for each body": 1} {
		t.Run(name, func(t *testing.T) {
			keepsTheContract(t, func(*testing.T) home { return bucketHome{newMemory(), size, quick} })
		})
	}
}

// overlaps are two attempts at an item at the same time: the holder of a lost lease may still write while the next holder works.
var overlaps = []struct {
	name string
	test func(t *testing.T, lost, next *File)
	want map[string]string
}{
	{"the next holder commits first", func(t *testing.T, lost, next *File) {
		commit(t, next)
		wantSuperseded(t, lost)
	}, map[string]string{"i/0-0.ndjson": pair("i", "1") + pair("i", "2")}},
	{"the lost holder tries first", func(t *testing.T, lost, next *File) {
		wantSuperseded(t, lost)
		commit(t, next)
	}, map[string]string{"i/0-0.ndjson": pair("i", "1") + pair("i", "2")}},
	{"the lost holder aborts", func(t *testing.T, lost, next *File) {
		if err := lost.Abort(); err != nil {
			t.Error(err)
		}
		commit(t, next)
	}, map[string]string{"i/0-0.ndjson": pair("i", "1") + pair("i", "2")}},
	{"the next holder aborts", func(t *testing.T, lost, next *File) {
		if err := next.Abort(); err != nil {
			t.Error(err)
		}
		wantSuperseded(t, lost)
	}, map[string]string{}},
}

// only returns the name of the only finished file.
func only(t testing.TB, h home) string {
	t.Helper()
	var names []string
	for name := range h.raw(t) {
		if finished(name) {
			names = append(names, name)
		}
	}
	if len(names) != 1 {
		t.Fatalf("files %v, want one", names)
	}
	return names[0]
}

// cut leaves three bytes of the only finished file.
func cut(t testing.TB, h home) {
	t.Helper()
	name := only(t, h)
	h.put(t, name, h.raw(t)[name][:3])
}

func TestABodyThatIsNoneIsRefusedForGood(t *testing.T) {
	for _, body := range []string{"x", "{}\n", "{}\n{}\n", "{\"index\":{}}\n{}\n", pair("i", "1") + "{\n", strings.TrimSuffix(pair("i", "1"), "\n"), "{\"index\":{\"_index\":\"i\"}}\n"} {
		f := create(t, enter(t, dirHome(t.TempDir()), "w", None), "i", 0, 0)
		if _, err := f.Send(t.Context(), []byte(body), 1); err == nil {
			t.Errorf("%q was taken", body)
		}
		if err := f.Commit(t.Context()); err == nil {
			t.Errorf("%q: committed after an error", body)
		}
	}
}

func wantSuperseded(t *testing.T, f *File) {
	t.Helper()
	if err := f.Commit(t.Context()); !errors.Is(err, ErrSuperseded) {
		t.Errorf("commit: %v, want %v", err, ErrSuperseded)
	}
	if err := f.Abort(); err != nil {
		t.Error(err)
	}
}

func manifest(t testing.TB, h home) Manifest {
	t.Helper()
	m, err := ParseManifest(h.raw(t)[ManifestName])
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func finish(t testing.TB, d *Export, missing string) {
	t.Helper()
	if err := d.Finish(t.Context(), missing); err != nil {
		t.Fatal(err)
	}
}

// wantManifest compares the manifest with the files that it lists, and with the documents of each file of a directory.
func wantManifest(t testing.TB, h home, complete bool, documents map[string]int64) {
	t.Helper()
	m, raw := manifest(t, h), h.raw(t)
	var sum, size int64
	got := map[string]int64{}
	for _, e := range m.Files {
		b := raw[e.Name]
		digest := sha256.Sum256(b)
		if e.Bytes != int64(len(b)) || e.SHA256 != hex.EncodeToString(digest[:]) {
			t.Errorf("%+v, want %d bytes, %x", e, len(b), digest)
		}
		got[plainName(e.Name)] += e.Documents
		sum, size = sum+e.Documents, size+e.Bytes
	}
	if m.Complete != complete || !maps.Equal(got, documents) || m.Documents != sum || m.Bytes != size {
		t.Errorf("manifest %+v, want complete %v and files %v", m, complete, documents)
	}
}

// try begins the output of shard 0 of the index i with a document.
func try(t *testing.T, d *Export, may func() error, id string) *File {
	t.Helper()
	f, err := d.Create(t.Context(), "i", 0, 0, may)
	if err != nil {
		t.Fatal(err)
	}
	send(t, f, pair("i", id))
	return f
}

func held() error { return nil }
func lost() error { return fault.ErrLeaseLost }
