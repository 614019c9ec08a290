package lucene

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"maps"
	"slices"
)

// mapDir is a Directory of files in memory.
type mapDir map[string][]byte

func (d mapDir) List() []string { return slices.Sorted(maps.Keys(d)) }

func (d mapDir) Open(name string) (File, error) {
	b, ok := d[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return memFile{name, b}, nil
}

type memFile struct {
	name string
	data []byte
}

func (f memFile) Size() int64 { return int64(len(f.data)) }

func (f memFile) ReadAt(_ context.Context, p []byte, off int64) error {
	if copy(p, f.data[off:]) < len(p) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (f memFile) Stream(_ context.Context, off, n int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(f.data[off : off+n])), nil
}

func (f memFile) Locate(off int64) (string, int64) { return "__" + f.name, off }
