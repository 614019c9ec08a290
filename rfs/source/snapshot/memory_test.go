package snapshot

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// memory is a repository in memory.
type memory map[string][]byte

func (m memory) Open(_ context.Context, name string, off, n int64) (io.ReadCloser, error) {
	b, ok := m[name]
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", name, fs.ErrNotExist)
	}
	if n < 0 {
		n = max(int64(len(b))-off, 0)
	}
	if off+n > int64(len(b)) {
		return nil, fault.Corrupt(name, "", int64(len(b)), "ends early")
	}
	return io.NopCloser(bytes.NewReader(b[off : off+n])), nil
}

func (m memory) Stat(_ context.Context, name string) (int64, error) {
	b, ok := m[name]
	if !ok {
		return 0, fmt.Errorf("blob %s: %w", name, fs.ErrNotExist)
	}
	return int64(len(b)), nil
}

func (m memory) List(_ context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return func(yield func(repo.Blob, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if strings.HasPrefix(name, prefix) && !yield(repo.Blob{Name: name, Size: int64(len(m[name]))}, nil) {
				return
			}
		}
	}
}

// without gives a copy that lacks some blobs; with gives one where a blob is another.
func (m memory) without(names ...string) memory {
	c := maps.Clone(m)
	for _, name := range names {
		delete(c, name)
	}
	return c
}

func (m memory) with(name string, b []byte) memory {
	c := maps.Clone(m)
	c[name] = b
	return c
}

// only returns the single name that has prefix and suffix.
func (m memory) only(t testing.TB, prefix, suffix string) string {
	t.Helper()
	var found []string
	for name := range m {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d blobs %s*%s: %v", len(found), prefix, suffix, found)
	}
	return found[0]
}

// realRepositories are small repositories of real clusters, one of each generation:
// testdata/*.zip.
func realRepositories(t testing.TB) map[string]memory {
	t.Helper()
	names, err := filepath.Glob("testdata/*.zip")
	if err != nil || len(names) < 9 {
		t.Fatalf("%d repositories in testdata: %v", len(names), err)
	}
	out := map[string]memory{}
	for _, name := range names {
		out[strings.TrimSuffix(filepath.Base(name), ".zip")] = unzip(t, name)
	}
	return out
}

func unzip(t testing.TB, name string) memory {
	t.Helper()
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	m := memory{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if m[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// frame puts a payload between header and footer, as metadata blobs have them.
func frame(codec string, payload []byte) []byte {
	b := []byte{0x3F, 0xD7, 0x6C, 0x17, byte(len(codec))}
	b = append(append(b, codec...), 0, 0, 0, 1)
	b = append(append(b, payload...), 0xC0, 0x28, 0x93, 0xE8, 0, 0, 0, 0)
	return appendCRC(b)
}

func appendCRC(b []byte) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(crc32.ChecksumIEEE(b)))
}
