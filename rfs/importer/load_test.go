package importer

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/export"
)

// source is a Source of one file; nobody lists it.
type source struct {
	blob
	Source
}

func (s source) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	return s.blob.Open(ctx, name, off, n)
}

type everyIndex struct{}

func (everyIndex) Ensure(context.Context, []byte) error { return nil }

// BenchmarkLoad reads a file and makes bulk bodies of it, which nobody takes. Bytes are those of the
// unpacked file.
func BenchmarkLoad(b *testing.B) {
	var text bytes.Buffer
	for range 20000 {
		text.WriteString(linesFor[1] + "\n" + `{"text":"` + strings.Repeat("abcdefghij ", 90) + `"}` + "\n")
	}
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	z.Write(text.Bytes())
	z.Close()
	e, err := zstd.NewWriter(&zst)
	if err != nil {
		b.Fatal(err)
	}
	e.Write(text.Bytes())
	e.Close()
	for _, c := range []struct {
		packed compression
		file   blob
	}{{plain, text.Bytes()}, {gzipped, gz.Bytes()}, {zstandard, zst.Bytes()}} {
		b.Run(string(c.packed), func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				size := int64(len(c.file))
				r := &run{Import: &Import{Source: source{blob: c.file}, Indices: everyIndex{}, Types: RefuseTypes},
					window: Task{File: "f", Size: size, To: size, Compression: c.packed}}
				r.loader = bulk.New(bulk.Options{Sender: &export.Discard{}, MaxBytes: 5 << 20})
				if err := r.load(b.Context()); err != nil {
					b.Fatal(err)
				}
				if err := r.loader.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
				if n := r.loader.Counts().Indexed; n != 20000 {
					b.Fatalf("%d documents", n)
				}
			}
		})
	}
}
