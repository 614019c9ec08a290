package abuse

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"github.com/rfsd/rfsd/testing/draw"
)

// blob writes the primitives of Lucene 9 files and of blobs of a snapshot.
type blob struct{ bytes.Buffer }

func (b *blob) vint(v int64) { b.Write(binary.AppendUvarint(nil, uint64(v))) }
func (b *blob) text(s string) {
	b.vint(int64(len(s)))
	b.WriteString(s)
}
func (b *blob) be32(v uint32) { b.Write(binary.BigEndian.AppendUint32(nil, v)) }
func (b *blob) be64(v uint64) { b.Write(binary.BigEndian.AppendUint64(nil, v)) }
func (b *blob) le32(v uint32) { b.Write(binary.LittleEndian.AppendUint32(nil, v)) }
func (b *blob) le64(v uint64) { b.Write(binary.LittleEndian.AppendUint64(nil, v)) }

const segmentID = "0123456789abcdef"

// begin writes a header; suffix is that of the files of a segment, which carry its id.
func (b *blob) begin(codec string, version uint32, ofSegment bool) {
	b.be32(0x3FD76C17)
	b.text(codec)
	b.be32(version)
	if ofSegment {
		b.WriteString(segmentID + "\x00")
	}
}

func (b *blob) end() []byte {
	b.be32(0xC02893E8)
	b.be32(0)
	b.be64(uint64(crc32.ChecksumIEEE(b.Bytes())))
	return b.Bytes()
}

// sliceOf is how much of a long document is compressed at once, in bytes.
const sliceOf = 8 << 20

// unit compresses one slice as a codec of stored fields does.
func unit(t *testing.T, codec string, p []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	var u blob
	if codec == "ZstdStoredFields814" {
		w, err := zstd.NewWriter(nil)
		must(t, err)
		packed.Write(w.EncodeAll(p, nil))
	} else { // no dictionary, one block
		w, err := flate.NewWriter(&packed, flate.BestCompression)
		must(t, err)
		_, err = w.Write(p)
		must(t, err)
		must(t, w.Close())
		u.vint(0)
		u.vint(int64(len(p)))
		u.vint(0)
	}
	u.vint(int64(packed.Len()))
	u.Write(packed.Bytes())
	return u.Bytes()
}

// longShard are the files of a shard with a short document, one with n blanks, and a short one, and by how much the long
// one is compressed.
func longShard(t *testing.T, codec string, n int) (files map[string][]byte, ratio int64) {
	t.Helper()
	return shardOf(t, codec, source{`{"s":"`, " ", n, `"}`})
}

// source is a text with a part that is repeated n times.
type source struct {
	head, part string
	n          int
	tail       string
}

func (s source) size() int { return len(s.head) + len(s.part)*s.n + len(s.tail) }

// shardOf are the files of a shard with a short document, a long one, and a short one, and by how much the long one is
// compressed.
func shardOf(t *testing.T, codec string, s source) (files map[string][]byte, ratio int64) {
	t.Helper()
	document := func(id string, s source) io.Reader {
		var b blob
		b.vint(0<<3 | 1) // _id
		b.text("\xff" + id)
		b.vint(1<<3 | 1) // _source
		b.vint(int64(s.size()))
		return io.MultiReader(bytes.NewReader(b.Bytes()), strings.NewReader(s.head), repeated(s.part, s.n), strings.NewReader(s.tail))
	}
	const first, last = `{"n":1}`, `{"n":2}`
	short, err := io.ReadAll(document("a!", source{head: first}))
	must(t, err)
	var idAndLength blob
	idAndLength.vint(1)
	idAndLength.text("\xffbig!")
	idAndLength.vint(1)
	idAndLength.vint(int64(s.size()))
	long := int64(idAndLength.Len() + s.size())

	var fdt blob
	fdt.begin(codec, 1, true)
	chunks := []uint64{uint64(fdt.Len())}
	fdt.vint(0)        // first document
	fdt.vint(2<<2 | 1) // two, sliced
	fdt.WriteByte(0)
	fdt.vint(2) // fields of each
	fdt.WriteByte(32)
	fdt.le32(uint32(len(short)))
	fdt.le32(uint32(long))
	raw := io.MultiReader(bytes.NewReader(short), document("big!", s))
	for buf := make([]byte, sliceOf); ; {
		got, err := io.ReadFull(raw, buf)
		if got > 0 {
			fdt.Write(unit(t, codec, buf[:got]))
		}
		if err != nil {
			break
		}
	}
	ratio = long / (int64(fdt.Len()) - int64(chunks[0]))
	chunks = append(chunks, uint64(fdt.Len()))
	short, err = io.ReadAll(document("b!", source{head: last}))
	must(t, err)
	fdt.vint(2)
	fdt.vint(1 << 2)
	fdt.vint(2)
	fdt.vint(int64(len(short)))
	fdt.Write(unit(t, codec, short))
	chunks = append(chunks, uint64(fdt.Len()))

	var fdx, fdm blob
	fdx.begin("Lucene90FieldsIndexIdx", 0, true)
	fdm.begin("Lucene90FieldsIndexMeta", 1, true)
	fdm.vint(sliceOf)
	fdm.le32(3)
	fdm.le32(10)
	fdm.le32(3)
	for _, values := range [][]uint64{{0, 2, 3}, chunks} { // whole numbers, not compressed
		fdm.le64(uint64(fdx.Len()))
		fdm.le64(0)
		fdm.le32(0)
		fdm.le64(0)
		fdm.WriteByte(64)
		for _, v := range values {
			fdx.le64(v)
		}
	}
	fdm.le64(uint64(fdx.Len()))
	fdm.le64(chunks[2])
	fdm.vint(2)
	fdm.vint(0)
	fdm.vint(0)

	var commit blob
	commit.be32(0x3FD76C17)
	commit.text("segments")
	commit.be32(10)
	commit.WriteString(segmentID + "\x011" + "\x0a\x01\x00") // generation 1, Lucene 10.1.0
	commit.vint(10)
	commit.be64(7)
	commit.vint(1)
	commit.be32(1)
	commit.WriteString("\x0a\x01\x00")
	commit.text("_0")
	commit.WriteString(segmentID)
	commit.text("Lucene101")
	commit.be64(1<<64 - 1) // no deletes
	commit.be32(0)
	commit.be64(1<<64 - 1) // no updates of field infos
	commit.be64(1<<64 - 1) // nor of doc values
	commit.be32(0)         // no soft deletes
	commit.WriteString("\x01" + segmentID)
	commit.vint(0)
	commit.be32(0)
	commit.vint(0)

	var si blob
	si.begin("Lucene90SegmentInfo", 0, true)
	for _, v := range []uint32{10, 1, 0} {
		si.le32(v)
	}
	si.WriteByte(0)
	si.le32(3)
	si.WriteString("\xff\x01") // not compound, blocks
	si.vint(0)
	si.vint(1)
	si.text("_0.fdt")
	si.vint(0)
	si.vint(0)

	var fnm blob
	fnm.begin("Lucene94FieldInfos", 2, true)
	fnm.vint(2)
	for i, name := range []string{"_id", "_source"} {
		fnm.text(name)
		fnm.vint(int64(i))
		fnm.WriteString("\x00\x00\x00\x00")
		fnm.le64(1<<64 - 1)
		fnm.vint(0)
		fnm.WriteString("\x00\x00\x00\x00")
	}
	return map[string][]byte{
		"segments_1": commit.end(), "_0.si": si.end(), "_0.fnm": fnm.end(), "_0.fdt": fdt.end(), "_0.fdx": fdx.end(), "_0.fdm": fdm.end(),
	}, ratio
}

// longSnapshot is a real repository, in which the shard of the index order-check is replaced by one with a document of n
// blanks.
func longSnapshot(t *testing.T, codec string, n int) (dir string, ratio int64) {
	t.Helper()
	return snapshotOf(t, codec, source{`{"s":"`, " ", n, `"}`})
}

// snapshotOf is such a repository with another long document.
func snapshotOf(t *testing.T, codec string, s source) (dir string, ratio int64) {
	t.Helper()
	dir = fixture(t)
	shard := oneShard(t, dir)
	files, ratio := shardOf(t, codec, s)
	writeShard(t, shard, files)
	return dir, ratio
}

// writeShard replaces the files of a shard.
func writeShard(t *testing.T, shard string, files map[string][]byte) {
	t.Helper()
	list := ""
	for name, b := range files {
		must(t, os.WriteFile(filepath.Join(shard, "__"+name), b, 0o600))
		list += fmt.Sprintf(`,{"name":"__%s","physical_name":"%s","length":%d}`, name, name, len(b))
	}
	writeManifest(t, shard, list[1:])
}

// oneShard returns the directory of the shard of the index order-check of a repository.
func oneShard(t *testing.T, dir string) string {
	t.Helper()
	shards, err := filepath.Glob(filepath.Join(dir, "indices", "*", "0"))
	must(t, err)
	for _, shard := range shards {
		if _, err := os.Stat(filepath.Join(filepath.Dir(shard), "1")); err != nil {
			return shard // order-check has one shard, the others more
		}
	}
	t.Fatal("no index of one shard")
	return ""
}

// writeManifest replaces the list of the files of a shard.
func writeManifest(t *testing.T, shard, list string) {
	t.Helper()
	manifests, err := filepath.Glob(filepath.Join(shard, "snap-*.dat"))
	must(t, err)
	var manifest blob
	manifest.begin("snapshot", 1, false)
	manifest.WriteString(`{"name":"snap1","index_version":1,"files":[` + list + `]}`)
	must(t, os.WriteFile(manifests[0], manifest.end(), 0o600))
}

// TestLongDocumentsOfASnapshot: one that the target takes arrives, whatever its ratio; one beyond it is named and not held.
func TestLongDocumentsOfASnapshot(t *testing.T) {
	draw.Test(t)
	for _, c := range []struct {
		name, codec string
		blanks      int
		arrives     bool
	}{
		{"DEFLATE, what the target takes", "Lucene90StoredFieldsHighData", 100_000_000, true},
		{"zstd, what the target takes", "ZstdStoredFields814", 100_000_000, true},
		{"DEFLATE, two and a half times that", "Lucene90StoredFieldsHighData", 250_000_000, false},
		{"zstd, eight times that", "ZstdStoredFields814", 800_000_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, ratio := longSnapshot(t, c.codec, c.blanks)
			if ratio < 1000 {
				t.Fatalf("compressed by %d only", ratio)
			}
			failed := filepath.Join(t.TempDir(), "failed")
			e := run(t, patience+10*patience, []string{"RFS_TARGET_PASSWORD=x"}, "rfsd", "migrate", "--repo-uri", dir, "--snapshot-name", "snap1", "--index-allowlist", "order-check",
				"--target-host", serve(t, &cluster{}), "--target-username", "admin", "--coordinator-file", filepath.Join(t.TempDir(), "state.db"),
				"--phases", "documents", "--failed-documents", failed, "--output", "json")
			want, code := `"indexed": 3`, 0
			if !c.arrives {
				want, code = `"indexed": 2`, 6
			}
			if e.late || e.code != code || !strings.Contains(e.stdout, want) {
				t.Errorf("exit %d, ran on %t: %s %.1000s", e.code, e.late, e.stdout, e.stderr)
			}
			t.Logf("%d:1, %d MB", ratio, e.memory>>20)
			if e.memory > mostMemory {
				t.Errorf("it took %d MB", e.memory>>20)
			}
			if reasons := recorded(t, failed); strings.Contains(reasons, "too_large") == c.arrives {
				t.Errorf("recorded as failed: %q", reasons)
			}
		})
	}
}
