package repotest

import (
	"archive/zip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Unpack returns the folder of a repository in a zip file and the names of its blobs.
func Unpack(t *testing.T, file string) (dir string, blobs []string) {
	t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close() //nolint:errcheck // it was read
	dir = t.TempDir()
	for _, f := range z.File {
		if f.FileInfo().IsDir() {
			continue
		}
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		Put(t, dir, f.Name, b)
		blobs = append(blobs, f.Name)
	}
	slices.Sort(blobs)
	return dir, blobs
}

// Put writes a blob to the folder of a repository.
func Put(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Frame returns a JSON text as a metadata blob of Elasticsearch 2.0 and later.
func Frame(codec, payload string) []byte {
	b := []byte{0x3F, 0xD7, 0x6C, 0x17, byte(len(codec))}
	b = append(append(b, codec...), 0, 0, 0, 1)
	b = append(append(b, payload...), 0xC0, 0x28, 0x93, 0xE8, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint64(b, uint64(crc32.ChecksumIEEE(b)))
}
