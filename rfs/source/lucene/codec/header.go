package codec

import (
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"
)

/*
Header and footer of a Lucene file. Both are big-endian in every version.

	header        3F D7 6C 17 | VInt n, n bytes codec name | i32 version
	index header  header | 16 bytes segment id | u8 n, n bytes suffix      Lucene 5.0 and later
	footer        C0 28 93 E8 | i32 0 | i64 CRC-32 (IEEE) of everything before the CRC
	                                                                      Lucene 4.8 and later
*/
const (
	// HeaderMagic starts a header, FooterMagic a footer.
	HeaderMagic = 0x3FD76C17
	FooterMagic = 0xC02893E8

	// FooterLen is the length of a footer in bytes.
	FooterLen = 16
	// MaxHeaderLen bounds a header: magic, a name of at most 127 bytes, version, id, suffix.
	MaxHeaderLen = 4 + 1 + 127 + 4 + 16 + 1 + 255
)

// Header is the decoded header of a Lucene file.
type Header struct {
	Codec   string
	Version int32
	ID      string // 16 bytes; "" in a plain header
	Suffix  string // "" in a plain header
	Len     int    // bytes from the start of the file
}

// LittleEndian reports whether the fixed-width integers of a file with this codec name are little-endian,
// except in header and footer. This holds for codecs of Lucene 9 and later and of plug-ins made for it. The
// product version does not determine it: one commit can have both.
func LittleEndian(codec string) bool {
	for _, p := range []string{"ZstdStoredFields", "CustomStoredFields", "QatStoredFields", "ES87TSDB", "ES819TSDB", "ES95TSDB", "ES93BFloat16FlatVectors", "lucene94Hnsw"} {
		if strings.HasPrefix(codec, p) {
			return true
		}
	}
	return generation(codec) >= 90
}

// generation returns the number in a codec name of Lucene, 87 in Lucene87StoredFieldsFastData;
// 41 for Lucene 4.10, 0 for other names.
func generation(codec string) int {
	digits, ok := strings.CutPrefix(codec, "Lucene")
	if !ok {
		return 0
	}
	end := 0
	for end < len(digits) && digits[end] >= '0' && digits[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(digits[:end])
	if err != nil {
		return 0
	}
	if n == 410 {
		return 41
	}
	return n
}

// footedSince is the header version from which files of Lucene 4 have a footer.
var footedSince = map[string]int32{
	"Lucene46SegmentInfo":       1,
	"Lucene46FieldInfos":        1,
	"CompoundFileWriterEntries": 1,
	"CompoundFileWriterData":    1,
	"Lucene41StoredFieldsIndex": 2,
	"Lucene41StoredFieldsData":  2,
	"BitVector":                 2,
	"BLOCK_TREE_TERMS_DICT":     3,
	"Lucene41PostingsWriterDoc": 2,
	"Lucene41PostingsWriterPos": 2,
	"DiskDocValuesMetadata":     2,
	"DiskDocValuesData":         2,
	"Lucene45ValuesMetadata":    2,
	"Lucene45DocValuesData":     2,
	"Lucene49ValuesMetadata":    0,
	"Lucene49DocValuesData":     0,
	"Lucene410ValuesMetadata":   0,
	"Lucene410DocValuesData":    0,
}

// WantsFooter reports whether a file that starts with these bytes must have a footer, as far
// as its header determines that: all of Lucene 5 and later, and some of Lucene 4.8 and later.
func WantsFooter(file []byte) bool {
	if len(file) > 4 && binary.BigEndian.Uint32(file) == 0xFFFFFFFE {
		file = file[4:] // what precedes the header of a BitVector
	}
	in := NewInput(file)
	h := in.Header()
	if in.Err() != nil {
		return false
	}
	since, ok := footedSince[h.Codec]
	return ok && h.Version >= since || generation(h.Codec) >= 50 || LittleEndian(h.Codec)
}

// Header reads a plain header and sets the byte order that follows from its codec name.
func (in *Input) Header() Header {
	le := in.le
	in.le = false
	if m := uint32(in.I32()); in.err == nil && m != HeaderMagic {
		in.pos -= 4
		in.Fail("not a Lucene header: it starts with %08x", m)
	}
	var h Header
	if n := in.VInt(); n >= 0 && n < 128 {
		h.Codec = string(in.Take(int(n)))
	} else {
		in.Fail("codec name of %d bytes", n)
	}
	h.Version = in.I32()
	in.le = le || LittleEndian(h.Codec)
	h.Len = in.pos
	return h
}

// IndexHeader reads a header with id and suffix.
func (in *Input) IndexHeader() Header {
	h := in.Header()
	h.ID = string(in.Take(16))
	h.Suffix = string(in.Take(int(in.U8())))
	h.Len = in.pos
	return h
}

// Footer checks the footer of a whole file against the bytes before it and returns the CRC.
func Footer(file []byte) (uint32, error) {
	body := len(file) - FooterLen
	if body < 0 {
		return 0, Errorf(0, "file of %d bytes is too short for a footer", len(file))
	}
	want, err := ParseFooter(file[body:], int64(body))
	if err != nil {
		return 0, err
	}
	if got := crc32.ChecksumIEEE(file[:len(file)-8]); got != want {
		return 0, Errorf(int64(body), "checksum %08x, footer states %08x", got, want)
	}
	return want, nil
}

// ParseFooter reads the 16 bytes of a footer at offset off of its file and returns the CRC that it states.
func ParseFooter(p []byte, off int64) (uint32, error) {
	switch {
	case len(p) != FooterLen:
		return 0, Errorf(off, "footer of %d bytes", len(p))
	case binary.BigEndian.Uint32(p) != FooterMagic:
		return 0, Errorf(off, "no footer: %08x", binary.BigEndian.Uint32(p))
	case binary.BigEndian.Uint32(p[4:]) != 0:
		return 0, Errorf(off+4, "unknown checksum algorithm %d", binary.BigEndian.Uint32(p[4:]))
	}
	crc := binary.BigEndian.Uint64(p[8:])
	if crc>>32 != 0 {
		return 0, Errorf(off+8, "checksum %016x has more than 32 bits", crc)
	}
	return uint32(crc), nil
}

// HasFooter reports whether a file ends with something that starts like a footer.
func HasFooter(file []byte) bool {
	return len(file) >= FooterLen && binary.BigEndian.Uint32(file[len(file)-FooterLen:]) == FooterMagic
}

// Base36 returns a generation in the form of file names and suffixes.
func Base36(n int64) string { return strconv.FormatInt(n, 36) }
