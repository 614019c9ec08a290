//go:build unix

package lucene

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// cpuTime returns what this process has used, in all its threads.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// logLine returns a JSON document of about 900 bytes, as log events are.
func logLine(r *rand.Rand, i int) []byte {
	words := []string{"connection", "established", "timeout", "upstream", "request", "GET", "POST", "/api/v1/items", "user", "session", "refused", "cache", "miss", "hit", "latency", "backend"}
	msg := ""
	for len(msg) < 560 {
		msg += words[r.IntN(len(words))] + fmt.Sprintf("=%x ", r.Uint32N(1<<(4+r.Uint32N(16))))
	}
	return fmt.Appendf(nil, `{"@timestamp":"2026-03-%02dT%02d:%02d:%02d.%03dZ","host":{"name":"web-%03d.example.org","ip":"10.%d.%d.%d"},"level":"INFO","status":%d,"bytes":%d,"took":%.3f,"path":"/api/v1/items/%d","agent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36","message":%q}`,
		1+i%28, i%24, i%60, r.IntN(60), r.IntN(1000), r.IntN(200), r.IntN(256), r.IntN(256), r.IntN(256), 200+r.IntN(300), r.IntN(1<<20), r.Float64()*100, r.IntN(1<<30), msg)
}

func logDocs(n int) []testDoc {
	r := rand.New(rand.NewPCG(1, 2))
	docs := make([]testDoc, n)
	for i := range docs {
		id := make([]byte, 15)
		for k := range id {
			id[k] = byte(r.Uint32())
		}
		docs[i] = testDoc{{numID, 1, id}, {numSource, 1, logLine(r, i)}}
	}
	return docs
}

// BenchmarkReader reads segments of 27 MB of source; the figures are source bytes.
func BenchmarkReader(b *testing.B) {
	docs := logDocs(30000)
	for _, c := range []struct {
		name, fdt          string
		version, size, max int
	}{
		{"lz4", "Lucene50StoredFieldsFastData", 1, 16 << 10, 128},
		{"lz4dict600k", "Lucene87StoredFieldsFastData", 3, 600 << 10, 1024},
		{"lz4dict80k", "Lucene90StoredFieldsFastData", 1, 80 << 10, 1024},
		{"deflate", "Lucene50StoredFieldsHighData", 1, 61440, 512},
		{"deflatedict", "Lucene90StoredFieldsHighData", 1, 480 << 10, 4096},
		{"zstd814", "ZstdStoredFields814", 1, 240 << 10, 2048},
		{"zstddict", "CustomStoredFieldsZstd", 1, 480 << 10, 4096},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := encodeSegment(b, segmentSpec{fdt: c.fdt, version: c.version, chunkSize: c.size, chunkDocs: c.max, packed: 2, docs: docs})
			commit, err := Open(b.Context(), dir, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			began, total := cpuTime(b), int64(0)
			for b.Loop() {
				r := commit.Reader(ReadOptions{})
				n := int64(0)
				for {
					rec, err := r.Next(b.Context())
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					n += int64(len(rec.Source))
				}
				b.SetBytes(n)
				total += n
			}
			b.ReportMetric(float64(total)/1e6/(cpuTime(b)-began).Seconds(), "MB/cpu-s")
			b.ReportMetric(float64(len(dir["_0.fdt"])), "fdt-bytes")
		})
	}
}

// BenchmarkUnit decompresses one unit of each way over and over: decoders alone.
func BenchmarkUnit(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name, fdt string
		size      int
	}{
		{"lz4", "Lucene50StoredFieldsFastData", 16 << 10},
		{"lz4dict", "Lucene90StoredFieldsFastData", 80 << 10},
		{"deflate", "Lucene50StoredFieldsHighData", 61440},
		{"deflatedict", "Lucene90StoredFieldsHighData", 480 << 10},
		{"zstd814", "ZstdStoredFields814", 240 << 10},
		{"zstdblocks", "CustomStoredFieldsZstdNoDict", 480 << 10},
		{"zstddict", "CustomStoredFieldsZstd", 480 << 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			var raw []byte
			for i := 0; len(raw) < c.size; i++ {
				raw = append(raw, logLine(r, i)...)
			}
			src := compressUnit(b, c.fdt, raw)
			unit := storedFormats[c.fdt].compression()
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			began, rounds := cpuTime(b), 0
			var dst []byte
			for b.Loop() {
				var err error
				if dst, _, err = unit.unit(dst[:0], src, len(raw), nil, true); err != nil {
					b.Fatal(err)
				}
				rounds++
			}
			b.ReportMetric(float64(rounds)*float64(len(raw))/1e6/(cpuTime(b)-began).Seconds(), "MB/cpu-s")
			b.ReportMetric(float64(len(raw))/float64(len(src)), "ratio")
		})
	}
}
