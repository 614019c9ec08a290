package export

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/retry"
)

// home is a place for one export, as tests see it.
type home interface {
	// enter opens the export, alone or beside other writers where that makes a difference.
	enter(ctx context.Context, writer string, c Compression, alone bool) (*Export, error)
	// raw returns all files by their names.
	raw(t testing.TB) map[string][]byte
	// put replaces a file; nil removes it.
	put(t testing.TB, name string, b []byte)
}

// dirHome is a directory.
type dirHome string

func (h dirHome) enter(_ context.Context, writer string, c Compression, alone bool) (*Export, error) {
	return open(system{}, string(h), writer, c, !alone)
}

func (h dirHome) raw(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(string(h), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(string(h), path)
		if err != nil {
			return err
		}
		all[filepath.ToSlash(rel)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (h dirHome) put(t testing.TB, name string, b []byte) {
	t.Helper()
	path := filepath.Join(string(h), filepath.FromSlash(name))
	err := os.Remove(path)
	if b != nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// bucketHome is a prefix of an object store.
type bucketHome struct {
	store  Store
	size   int64 // of objects
	policy retry.Policy
}

// quick is a policy without pauses.
var quick = retry.Policy{Tries: 5, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}

func (h bucketHome) enter(ctx context.Context, _ string, c Compression, _ bool) (*Export, error) {
	return openBucket(ctx, h.store, c, h.policy, h.size)
}

func (h bucketHome) raw(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for after, more := "", true; more; {
		err := h.policy.Do(context.WithoutCancel(t.Context()), func(ctx context.Context) (err error) {
			var names []string
			names, _, more, err = h.store.List(ctx, "", after)
			for _, name := range names {
				if err == nil {
					all[name], _, err = h.store.Get(ctx, name)
				}
				if err == nil {
					after = name
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func (h bucketHome) put(t testing.TB, name string, b []byte) {
	t.Helper()
	err := h.policy.Do(t.Context(), func(ctx context.Context) error {
		if err := h.store.Delete(ctx, name); err != nil || b == nil {
			return err
		}
		_, err := h.store.Put(ctx, name, b, "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// enter opens an export until the end of the test.
func enter(t testing.TB, h home, writer string, c Compression) *Export {
	t.Helper()
	x, err := h.enter(t.Context(), writer, c, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// share opens an export beside other writers.
func share(t testing.TB, h home, writer string) *Export {
	t.Helper()
	x, err := h.enter(t.Context(), writer, None, false)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func reenter(t testing.TB, x *Export, h home, c Compression) *Export {
	t.Helper()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	return enter(t, h, "again", c)
}

// plainName returns the name that a directory has for the file of an object.
func plainName(name string) string {
	if of := attemptOf(name); of != "" {
		before, after, _ := strings.Cut(name, "."+of)
		_, extension, _ := strings.Cut(after, ".")
		return before + "." + extension
	}
	return name
}

// tree returns the content of all finished and unfinished files in a directory, and of all published objects in a bucket, but rfsd's own, by
// the names that a directory has for them.
func tree(t testing.TB, h home) map[string]string {
	t.Helper()
	raw, all := h.raw(t), map[string]string{}
	published := map[string]bool{}
	for name, b := range raw {
		if strings.HasPrefix(name, notes) {
			n, err := parseNote(name, b)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range n.Files {
				published[f.Name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if strings.HasPrefix(name, private+"/") || name == ManifestName || attemptOf(name) != "" && !published[name] {
			continue
		}
		all[plainName(name)] += unpacked(t, name, raw[name])
	}
	return all
}

// unpublished returns the names of the temporary files, and of the objects of attempts that are not published.
func unpublished(t testing.TB, h home) (names []string) {
	t.Helper()
	published := tree(t, h)
	sum := 0
	for _, text := range published {
		sum += len(text)
	}
	for name, b := range h.raw(t) {
		switch {
		case unfinished.MatchString(path.Base(name)):
			names = append(names, name)
		case attemptOf(name) != "":
			sum -= len(unpacked(t, name, b))
		}
	}
	if sum < 0 {
		names = append(names, fmt.Sprintf("%d bytes of documents in objects", -sum))
	}
	return names
}

func unpacked(t testing.TB, name string, b []byte) string {
	t.Helper()
	var r io.Reader = bytes.NewReader(b)
	var err error
	switch path.Ext(name) {
	case ".gz":
		r, err = gzip.NewReader(r)
	case ".zst":
		r, err = zstd.NewReader(r)
	}
	if err == nil {
		b, err = io.ReadAll(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantTree(t testing.TB, h home, want map[string]string) {
	t.Helper()
	got := tree(t, h)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s holds %q, want %q", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("unexpected file %s", name)
		}
	}
}

// memory is a Store in memory with atomic conditions, and pages that are short, so that listings have several.
type memory struct {
	ignores bool // conditions, as a server that does not know them

	mu       sync.Mutex
	objects  map[string]string
	versions map[string]int
	last     int
	calls    []string
	// before and after are called with each request and its number; their errors are its errors. nil: none
	before, after func(n int, call, name string) error
}

func newMemory() *memory { return &memory{objects: map[string]string{}, versions: map[string]int{}} }

// request runs a request between before and after. It holds no lock while these run.
func (m *memory) request(call, name string, f func() error) error {
	m.mu.Lock()
	n, before, after := len(m.calls), m.before, m.after
	m.calls = append(m.calls, call+" "+name)
	m.mu.Unlock()
	if before != nil {
		if err := before(n, call, name); err != nil {
			return err
		}
	}
	m.mu.Lock()
	err := f()
	m.mu.Unlock()
	if after != nil {
		err = cmp.Or(after(n, call, name), err)
	}
	return err
}

func (m *memory) Get(ctx context.Context, name string) (b []byte, version string, err error) {
	err = m.request("get", name, func() error {
		text, ok := m.objects[name]
		if !ok {
			return fs.ErrNotExist
		}
		b, version = []byte(text), fmt.Sprint(m.versions[name])
		return ctx.Err()
	})
	return b, version, err
}

func (m *memory) Put(ctx context.Context, name string, body []byte, version string) (is string, err error) {
	err = m.request("put", name, func() error {
		at := ""
		if _, ok := m.objects[name]; ok {
			at = fmt.Sprint(m.versions[name])
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case at != version && !m.ignores:
			return fs.ErrExist
		}
		m.last++
		m.objects[name], m.versions[name], is = string(body), m.last, fmt.Sprint(m.last)
		return nil
	})
	return is, err
}

func (m *memory) List(_ context.Context, prefix, after string) (names, versions []string, more bool, err error) {
	err = m.request("list", prefix, func() error {
		for name := range m.objects {
			if strings.HasPrefix(name, prefix) && name > after {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		names, more = names[:min(3, len(names))], len(names) > 3
		for _, name := range names {
			versions = append(versions, fmt.Sprint(m.versions[name]))
		}
		return nil
	})
	return names, versions, more, err
}

func (m *memory) Delete(_ context.Context, name string) error {
	return m.request("delete", name, func() error {
		delete(m.objects, name)
		return nil
	})
}
