package doc

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// First bytes of a binary _id (Elasticsearch 6 and later, OpenSearch).
const (
	idUTF8    = 0xFF // the rest is the id
	idNumeric = 0xFE // the rest is decimal digits, two per byte
	idEscaped = 0xFD // the rest is the bytes of a base64 id
)

// AppendBinaryID appends the decoded form of a binary _id. FF is followed by UTF-8; FE by
// decimal digits, two per byte, high nibble first, with the last low nibble F if their number
// is odd. The bytes after FD, or all bytes without one of these prefixes, are decoded
// from an id in URL-safe base64 without padding.
func AppendBinaryID(dst, b []byte) ([]byte, error) {
	if len(b) == 0 {
		return dst, errors.New("empty _id")
	}
	switch b[0] {
	case idUTF8:
		if !utf8.Valid(b[1:]) {
			return dst, errors.New("_id is not UTF-8")
		}
		return append(dst, b[1:]...), nil
	case idNumeric:
		return appendDigits(dst, b[1:])
	case idEscaped:
		b = b[1:]
	}
	return appendURLBase64(dst, b), nil
}

// sextets are the characters of URL-safe base64. twelve is the pair of characters for each 12 bits, the first in the higher byte.
const sextets = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var twelve = func() (t [1 << 12]uint16) {
	for n := range t {
		t[n] = uint16(sextets[n>>6])<<8 | uint16(sextets[n&63])
	}
	return t
}()

// appendURLBase64 appends URL-safe base64 without padding.
func appendURLBase64(dst, b []byte) []byte {
	at, n := len(dst), base64.RawURLEncoding.EncodedLen(len(b))
	dst = slices.Grow(dst, n)[:at+n]
	out := dst[at:]
	for ; len(b) >= 8; b, out = b[6:], out[8:] {
		v := binary.BigEndian.Uint64(b)
		binary.BigEndian.PutUint64(out, uint64(twelve[v>>52])<<48|uint64(twelve[v>>40&0xFFF])<<32|uint64(twelve[v>>28&0xFFF])<<16|uint64(twelve[v>>16&0xFFF]))
	}
	for ; len(b) >= 3; b, out = b[3:], out[4:] {
		v := uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
		binary.BigEndian.PutUint32(out, uint32(twelve[v>>12])<<16|uint32(twelve[v&0xFFF]))
	}
	switch len(b) {
	case 1:
		out[0], out[1] = sextets[b[0]>>2], sextets[b[0]<<4&63]
	case 2:
		v := uint32(b[0])<<8 | uint32(b[1])
		out[0], out[1], out[2] = sextets[v>>10], sextets[v>>4&63], sextets[v<<2&63]
	}
	return dst
}

// pairs are the two digits of each byte of a numeric _id, 0 for bytes without two digits.
var pairs = func() (t [256][2]byte) {
	for n := range 100 {
		t[n/10<<4|n%10] = [2]byte{'0' + byte(n/10), '0' + byte(n%10)}
	}
	return t
}()

func appendDigits(dst, b []byte) ([]byte, error) {
	start := len(dst)
	dst = slices.Grow(dst, 2*len(b))
	out := dst[start : start+2*len(b)]
	for i, c := range b {
		p := &pairs[c]
		if p[0] != 0 && len(out) >= 2 { // len(out) is always 2 or more; the check lets the compiler omit bounds checks
			out[0], out[1] = p[0], p[1]
			out = out[2:]
			continue
		}
		if hi := c >> 4; hi > 9 || c&15 != 15 || i != len(b)-1 {
			return dst, fmt.Errorf("byte %02x of a numeric _id", c)
		}
		return append(dst[:start+2*i], '0'+c>>4), nil
	}
	return dst[:start+2*len(b)], nil
}

// appendSeriesID appends the id that Elasticsearch 9.5 computes for a document of a time
// series and does not store: URL-safe base64 without padding of the _tsid, the largest long
// minus the timestamp (8 bytes) and the routing hash (4 bytes), both big-endian. The record stores the hash
// as a binary _id that decodes to base64 of its bytes, little-endian.
func appendSeriesID(dst []byte, rec *lucene.Record) ([]byte, error) {
	text, err := AppendBinaryID(nil, rec.RoutingHash)
	if err != nil {
		return dst, fmt.Errorf("_ts_routing_hash: %w", err)
	}
	hash, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(hash) != 4 {
		return dst, fmt.Errorf("_ts_routing_hash %q is not base64 of 4 bytes", text)
	}
	if len(rec.ID) == 0 {
		return dst, errors.New("empty _tsid")
	}
	raw := binary.BigEndian.AppendUint64(bytes.Clone(rec.ID), uint64(math.MaxInt64-rec.Timestamp))
	raw = binary.BigEndian.AppendUint32(raw, binary.LittleEndian.Uint32(hash))
	return appendURLBase64(dst, raw), nil
}

// identify sets the type and the id of the document of a record. The type is nil for none or "_doc".
func (d *Decoder) identify(rec *lucene.Record, out *Document) (reason Reason, err error) {
	typ, id := d.mappingType, rec.ID
	switch rec.IDKind {
	case lucene.IDString:
	case lucene.IDBinary:
		if d.id, err = AppendBinaryID(d.id[:0], rec.ID); err == nil && len(d.id) > 0 {
			out.Type, out.ID = typ, d.id
			return "", nil // the usual case
		}
		id = d.id
	case lucene.IDUID:
		// A type cannot hold '#', an id can.
		var found bool
		if typ, id, found = bytes.Cut(rec.ID, []byte("#")); !found {
			err = errors.New("_uid without '#'")
		}
	case lucene.IDSeries:
		d.id, err = appendSeriesID(d.id[:0], rec)
		id = d.id
	default:
		return NoID, errors.New("a root document without a stored id")
	}
	switch {
	case err != nil:
	case len(id) == 0:
		err = errors.New("empty id")
	case (rec.IDKind == lucene.IDString || rec.IDKind == lucene.IDUID) && !utf8.Valid(rec.ID):
		err = errors.New("id is not UTF-8")
	}
	if err != nil {
		return BadID, err
	}
	out.Type, out.ID = meaningful(typ), id
	return "", nil
}

// meaningful returns nil for the type "_doc", which means none, else typ.
func meaningful(typ []byte) []byte {
	if len(typ) == 0 || string(typ) == "_doc" {
		return nil
	}
	return typ
}

// routingOf returns the routing of a record; a child of 1.x or 2.x without a stored routing is routed by its parent's id.
func routingOf(rec *lucene.Record) []byte {
	if rec.Routing != nil || rec.Parent == nil {
		return rec.Routing
	}
	if _, id, found := bytes.Cut(rec.Parent, []byte("#")); found {
		return id
	}
	return rec.Parent
}
