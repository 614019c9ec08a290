package snapshot

import (
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf16"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
The translog of a remote store. Longs of the metadata and of checkpoints are little-endian, longs of generations are big-endian.

	metadata    header "md" 1, i64 term, i64 generation, i64 least generation, map generation → term, footer
	.ckp        header "ckp" 4 or 5, i64 length, i32 operations, i64 generation, i64 least and i64 greatest sequence number, i64 global
	            checkpoint, i64 least generation, i64 trimmed above (-2: not), …, footer
	.tlog       header "translog" 3, i32 n, n bytes UUID, i64 term, i32 CRC-32 of all before, operations
	operation   i32 length, u8 type, by type, i32 CRC-32 from the type on
	1, 2 index  VInt 11, str id, VInt n, n bytes source, u8 1 and str routing or u8 0, i64 version, i64 time of an assigned id,
	            i64 sequence number, i64 term
	3 delete    VInt 7 or 8, str id, i64 version, i64 sequence number, i64 term; with 8 also u8 1 and str routing or u8 0
	4 no-op     i64 sequence number, i64 term, str reason
	str         VInt n, n UTF-16 units in one to three bytes each
*/

// Versions of operations; OpenSearch 2.0 to 3.9 write no others.
const (
	indexVersion  = 11
	deleteVersion = 7
	deleteRouting = 8 // OpenSearch 3.9 adds the routing to deletions
)

// trimmedNot is the value of a checkpoint whose operations are all valid.
const trimmedNot = -2

// operation is an operation of a translog. A no-op has no ID.
type operation struct {
	lucene.Operation
	certain bool // a checkpoint proves that it was not trimmed
}

// generations are the generations of a translog, from first to last, and their terms.
type generations struct {
	term, first, last int64
	terms             map[string]string
}

// parseTranslog returns the generations that a metadata blob lists.
func parseTranslog(b []byte) (g generations, err error) {
	in, err := summed(b, "md", 1, 1)
	if err != nil {
		return g, err
	}
	g.term, g.last, g.first = in.I64(), in.I64(), in.I64()
	n := in.Count(2)
	if in.Err() == nil && (n > maxGenerations || g.first < 0 || g.last < g.first || g.last-g.first >= maxGenerations) {
		in.Fail("%d generations from %d to %d", n, g.first, g.last)
	}
	g.terms = map[string]string{}
	for range n {
		generation, term := in.String(), in.String()
		if in.Err() != nil {
			break
		}
		g.terms[generation] = term
	}
	return g, in.Err()
}

// checkpoint describes a generation.
type checkpoint struct {
	length     int64 // of the valid part of the file, in bytes
	operations int32
	greatest   int64 // sequence number; negative if it has no operation
	trimmed    int64 // operations above this number are void, or trimmedNot
}

func parseCheckpoint(b []byte) (c checkpoint, err error) {
	in, err := summed(b, "ckp", 4, 5)
	if err != nil {
		return c, err
	}
	c.length, c.operations = in.I64(), in.I32()
	in.Take(8 + 8)
	c.greatest = in.I64()
	in.Take(8 + 8)
	c.trimmed = in.I64()
	if in.Err() == nil && (c.length < 0 || c.operations < 0) {
		in.Fail("%d operations in %d bytes", c.operations, c.length)
	}
	return c, in.Err()
}

// valid reports whether an operation of a sequence number is valid.
func (c checkpoint) valid(seq int64) bool { return c.trimmed == trimmedNot || seq <= c.trimmed }

// summed returns the body after the header of a blob, after verifying its checksum; longs in the body are little-endian.
func summed(b []byte, name string, least, most int32) (*codec.Input, error) {
	body, err := checkedBody(b)
	if err != nil {
		return nil, err
	}
	in := codec.NewInput(body)
	if h := in.Header(); in.Err() == nil && (h.Codec != name || h.Version < least || h.Version > most) {
		return nil, fmt.Errorf("codec %q version %d where %s %d to %d is expected: %w", h.Codec, h.Version, name, least, most, fault.ErrUnsupported)
	}
	in.SetLittleEndian(true)
	return in, in.Err()
}

// parseGeneration calls each with the operations of a generation in the order of the file. The sources share the bytes of b. uuid is the
// translog's, "" if it is unknown. It returns the number of operations. A file that ends within an operation is damage; whether operations
// follow the last one is for the caller to know.
func parseGeneration(b []byte, uuid string, each func(operation) error) (n int32, err error) {
	in := codec.NewInput(b)
	if h := in.Header(); in.Err() == nil && (h.Codec != "translog" || h.Version != 3) {
		return 0, fmt.Errorf("codec %q version %d where translog 3 is expected: %w", h.Codec, h.Version, fault.ErrUnsupported)
	}
	of := string(in.Take(int(in.I32())))
	most := in.I64()
	checkSum(in, b[:in.Pos()])
	if in.Err() == nil && uuid != "" && of != uuid {
		in.Fail("it belongs to the translog %q, not to %q of the commit", of, uuid)
	}
	for in.Err() == nil && in.Left() > 0 {
		size := in.I32()
		if in.Err() == nil && (size < 1+4 || int(size) > in.Left()) {
			in.Fail("an operation of %d bytes, %d are left", size, in.Left())
		}
		at := in.Pos()
		body := codec.NewInput(in.Take(max(int(size), 4) - 4))
		checkSum(in, b[at:in.Pos()])
		if in.Err() != nil {
			break
		}
		o, err := parseOperation(body)
		if err != nil {
			return n, err
		}
		if body.Err() == nil && (body.Left() > 0 || o.Seq < 0 || o.Term < 0 || o.Term > most) {
			body.Fail("number %d of term %d in a generation of term %d, %d bytes left", o.Seq, o.Term, most, body.Left())
		}
		if err := body.Err(); err != nil {
			in.Fail("operation at %d: %w", at, err)
			break
		}
		n++
		if err := each(o); err != nil {
			return n, err
		}
	}
	return n, in.Err()
}

// checkSum reads a checksum and compares it with p.
func checkSum(in *codec.Input, p []byte) {
	if want, got := uint32(in.I32()), crc32.ChecksumIEEE(p); in.Err() == nil && want != got {
		in.Fail("checksum %08x, computed %08x", want, got)
	}
}

// parseOperation returns fault.ErrUnsupported for unknown types and versions; other errors stay in the input.
func parseOperation(in *codec.Input) (o operation, err error) {
	kind := in.U8()
	var version int32
	switch kind {
	case 1, 2, 3:
		version = in.VInt()
		known := version == indexVersion
		if kind == 3 {
			known = version == deleteVersion || version == deleteRouting
		}
		if in.Err() == nil && !known {
			return o, fmt.Errorf("an operation of type %d has the version %d, which this version of rfsd does not read: %w", kind, version, fault.ErrUnsupported)
		}
	case 4:
		o.Seq, o.Term = in.I64(), in.I64()
		javaString(in)
		return o, nil
	default:
		if in.Err() == nil {
			return o, fmt.Errorf("an operation of the unknown type %d: %w", kind, fault.ErrUnsupported)
		}
		return o, nil
	}
	id := javaString(in)
	if id == "" {
		in.Fail("an empty id")
	}
	o.ID, o.Deleted = binaryID(id), kind == 3
	if !o.Deleted {
		o.Source = in.Take(int(in.VInt()))
		if in.U8() == 1 {
			o.Routing = []byte(javaString(in))
		}
	}
	o.Version = in.I64()
	if !o.Deleted {
		in.I64()
	}
	o.Seq, o.Term = in.I64(), in.I64()
	if o.Deleted && version == deleteRouting && in.U8() == 1 {
		o.Routing = []byte(javaString(in))
	}
	return o, nil
}

// javaString reads a string in the form of stream inputs of OpenSearch.
func javaString(in *codec.Input) string {
	n := in.Count(1)
	units := make([]uint16, 0, n)
	ascii := true
	for range n {
		c := uint16(in.U8())
		switch c >> 4 {
		case 0, 1, 2, 3, 4, 5, 6, 7:
		case 12, 13:
			c, ascii = c&0x1F<<6|uint16(in.U8()&0x3F), false
		case 14:
			c, ascii = c<<12|uint16(in.U8()&0x3F)<<6|uint16(in.U8()&0x3F), false
		default:
			in.Fail("byte %02x of a string", c)
		}
		if in.Err() != nil {
			return ""
		}
		units = append(units, c)
	}
	if !ascii {
		return string(utf16.Decode(units))
	}
	b := make([]byte, n)
	for i, c := range units {
		b[i] = byte(c)
	}
	return string(b)
}

// binaryID returns an id as a cluster stores it, see doc.AppendBinaryID: the shortest of the forms.
func binaryID(id string) []byte {
	const utf8, numeric, escaped = 0xFF, 0xFE, 0xFD
	if strings.Trim(id, "0123456789") == "" {
		b := []byte{numeric}
		for i := 0; i < len(id); i += 2 {
			low := byte(0xF)
			if i+1 < len(id) {
				low = id[i+1] - '0'
			}
			b = append(b, (id[i]-'0')<<4|low)
		}
		return b
	}
	if b, err := base64.RawURLEncoding.DecodeString(id); err == nil && base64.RawURLEncoding.EncodeToString(b) == id {
		if b[0] >= escaped {
			return append([]byte{escaped}, b...)
		}
		return b
	}
	return append([]byte{utf8}, id...)
}
