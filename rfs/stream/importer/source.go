package importer

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Source is the location of the files: a directory or a prefix of a bucket.
type Source interface {
	Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
	List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error]
	URI() string
}

// compression of a file, by its extension.
type compression string

const (
	plain     compression = "none"
	gzipped   compression = "gzip"
	zstandard compression = "zstd"
)

// extensions of files that are imported.
var extensions = []struct {
	suffix string
	packed compression
}{{".ndjson", plain}, {".ndjson.gz", gzipped}, {".ndjson.zst", zstandard}}

// maxFiles limits a listing, which is kept in memory with some hundred bytes per file.
const maxFiles = 1 << 20

// file is one file of the source.
type file struct {
	name   string
	size   int64
	packed compression
}

// compressionOf returns the compression of a file, and false if it is not imported: its name must have one of the
// extensions, and no component of its path may start with a dot (an export has its own records in .rfsd).
func compressionOf(name string) (compression, bool) {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return "", false
		}
	}
	for _, e := range extensions {
		if strings.HasSuffix(name, e.suffix) {
			return e.packed, true
		}
	}
	return "", false
}

// list returns the content of the source, with files in order of their names.
func list(ctx context.Context, src Source) (*survey, error) {
	s := &survey{sizes: map[string]int64{}, exports: exports{}}
	for blob, err := range src.List(ctx, "") {
		if err == nil {
			err = s.take(blob)
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", src.URI(), err)
		}
	}
	if len(s.sizes) == 0 && len(s.manifests) == 0 {
		return nil, fmt.Errorf("%s holds no file that ends in .ndjson, .ndjson.gz or .ndjson.zst: %w", src.URI(), fault.ErrConfig)
	}
	slices.SortFunc(s.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return s, nil
}
