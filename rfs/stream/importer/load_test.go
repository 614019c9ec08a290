package importer_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/testing/failedtest"
)

// BenchmarkImport imports a file of 20,000 documents into nothing, with a store in a file. Bytes are those of the
// unpacked file.
func BenchmarkImport(b *testing.B) {
	var text, gz, zst bytes.Buffer
	for range 20000 {
		text.WriteString(`{"index":{"_index":"i","_id":"1"}}` + "\n" + `{"text":"` + strings.Repeat("abcdefghij ", 90) + `"}` + "\n")
	}
	z := gzip.NewWriter(&gz)
	z.Write(text.Bytes())
	z.Close()
	e, err := zstd.NewWriter(&zst)
	if err != nil {
		b.Fatal(err)
	}
	e.Write(text.Bytes())
	e.Close()
	for name, file := range map[string][]byte{"x.ndjson": text.Bytes(), "x.ndjson.gz": gz.Bytes(), "x.ndjson.zst": zst.Bytes()} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			if err := os.WriteFile(filepath.Join(dir, name), file, 0o600); err != nil {
				b.Fatal(err)
			}
			src, err := repo.NewDir(dir)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				store, err := boltcms.OpenTemporary(filepath.Join(b.TempDir(), "cms.db"), time.Now)
				if err != nil {
					b.Fatal(err)
				}
				c := cms.New(cms.Config{Store: store, Creator: "b"})
				m := &importer.Import{
					Source: src, Store: store, Session: session.IdentityOf(c), Clock: timing.SystemClock(), Log: slog.New(slog.DiscardHandler), Indices: anyIndex{}, Failed: &failedtest.Recorder{},
					Destination: engine.ToCluster(&export.Discard{}, engine.Limits{Connections: 64}), Bulk: bulk.Options{MaxBytes: 5 << 20},
				}
				if s, err := m.Run(b.Context()); err != nil || s.Indexed != 20000 {
					b.Fatalf("%+v %v", s, err)
				}
				if err := store.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
