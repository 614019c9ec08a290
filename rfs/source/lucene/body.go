package lucene

import (
	"strings"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// role is the meaning of a stored field for a migration.
type role uint8

const (
	roleUnknown role = iota // the number is not in the field infos
	roleSkip
	roleID
	roleUID
	roleRouting
	roleParent
	roleSource
	roleRecovery
	roleSynthetic
)

var roles = map[string]role{
	"_id":              roleID,
	"_uid":             roleUID,
	"_routing":         roleRouting,
	"_parent":          roleParent,
	"_source":          roleSource,
	"_recovery_source": roleRecovery,
}

// fieldTable maps the number of a field to its role.
type fieldTable []role

func newFieldTable(fi *fieldInfos) fieldTable {
	highest := int32(-1)
	for n := range fi.fields {
		highest = max(highest, n)
	}
	t := make(fieldTable, highest+1)
	for n, f := range fi.fields {
		t[n] = roleOf(f.name)
	}
	return t
}

func roleOf(name string) role {
	if r, ok := roles[name]; ok {
		return r
	}
	// Elasticsearch stores here what it cannot rebuild from doc values.
	if strings.HasPrefix(name, "_ignored_source") || strings.HasSuffix(name, "._original") {
		return roleSynthetic
	}
	return roleSkip
}

// take sets the part of the record that a field with this role holds. Of several _id or _source values the first wins; _uid wins over _id.
func (r *Record) take(what role, text bool, value []byte) {
	if value == nil {
		value = []byte{}
	}
	switch what {
	case roleID:
		// Elasticsearch 1.x–5.x stores _uid; an additional _id repeats a part of it.
		if r.IDKind == IDNone {
			r.ID, r.IDKind = value, IDBinary
			if text {
				r.IDKind = IDString
			}
		}
	case roleUID:
		r.ID, r.IDKind = value, IDUID
	case roleRouting:
		r.Routing = value
	case roleParent:
		r.Parent = value
	case roleSource:
		if !r.HasSource {
			r.Source, r.HasSource = value, true
		}
	case roleRecovery:
		if !r.HasRecovery {
			r.RecoverySource, r.HasRecovery = value, true
		}
	case roleSynthetic:
		r.SyntheticParts = true
	}
}

/*
parseBody reads a stored document: fields times VLong number<<3|type, value.

	type        Lucene 4.1–4.10   5.0 and later
	0 string    VInt length, UTF-8
	1 binary    VInt length, bytes
	2 int       i32               zig-zag VInt
	3 float     i32               1, 4 or 5 bytes: FF, then a float; 80 and up, nothing; else 3 more
	4 long      i64               1 byte, with bit 20 a VLong follows
	5 double    i64               FF, then 8; FE, then 4; 80 and up, nothing; else 7 more

Only the size of a number matters here.
*/
func parseBody(doc []byte, fields int32, t fieldTable, rec *Record, fixed bool) error {
	p := 0
	for range fields {
		var head, size uint64
		n := 1
		if p < len(doc) && doc[p] < 0x80 {
			head = uint64(doc[p])
		} else if head, n = uvarint(doc[p:]); n <= 0 {
			return codec.Errorf(int64(p), "document ends within the number of a field")
		}
		p += n
		number := head >> 3
		if number >= uint64(len(t)) || t[number] == roleUnknown {
			return codec.Errorf(int64(p), "field %d is not in the field infos", number)
		}
		what, kind := t[number], head&7
		if kind > 1 {
			if p = skipNumber(doc, p, kind, fixed); p < 0 {
				return codec.Errorf(int64(len(doc)), "document ends within a number of type %d", kind)
			}
			continue
		}
		n = 1
		if p < len(doc) && doc[p] < 0x80 {
			size = uint64(doc[p])
		} else {
			size, n = uvarint(doc[p:])
		}
		if n <= 0 || size > uint64(len(doc)-p-n) {
			return codec.Errorf(int64(p), "value of %d bytes, %d left", size, len(doc)-p)
		}
		p += n
		end := p + int(size)
		switch {
		case what == roleSource && !rec.HasSource:
			rec.Source, rec.HasSource = doc[p:end:end], true
		case what != roleSkip:
			rec.take(what, kind == 0, doc[p:end:end])
		}
		p = end
	}
	if p != len(doc) {
		return codec.Errorf(int64(p), "%d bytes left after the last field", len(doc)-p)
	}
	return nil
}

// parsePair parses a document that consists of a binary _id and a binary _source into an empty record. Clusters since Elasticsearch 6 write
// this form unless they store other fields, too. It reports whether the document has the form, with field numbers below 16, an id of less
// than 128 bytes and a source of less than 16 KiB; otherwise rec is unchanged.
func parsePair(doc []byte, t fieldTable, rec *Record) bool {
	if len(doc) < 4 || doc[0]&0x87 != 1 || doc[1] >= 0x80 {
		return false
	}
	id := 2 + int(doc[1]) // where the _id ends
	if id+2 > len(doc) || doc[id]&0x87 != 1 {
		return false
	}
	source, size := id+2, int(doc[id+1])
	if size >= 0x80 {
		if source >= len(doc) || doc[source] >= 0x80 {
			return false
		}
		size = size&0x7f | int(doc[source])<<7
		source++
	}
	first, second := int(doc[0]>>3), int(doc[id]>>3)
	if source+size != len(doc) || first >= len(t) || t[first] != roleID || second >= len(t) || t[second] != roleSource {
		return false
	}
	rec.ID, rec.IDKind = doc[2:id:id], IDBinary
	rec.Source, rec.HasSource = doc[source:len(doc):len(doc)], true
	return true
}

// uvarint reads a variable-length integer of at most 9 bytes; n is 0 if p does not start with one.
func uvarint(p []byte) (v uint64, n int) {
	for shift := 0; n < len(p) && n < 9; shift += 7 {
		c := p[n]
		n++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, n
		}
	}
	return 0, 0
}

// skipNumber returns the offset after a number of the given type at p, or -1 if the document ends before it.
func skipNumber(doc []byte, p int, kind uint64, fixed bool) int {
	var size int
	switch {
	case p >= len(doc) || kind > 5:
		return -1
	case fixed:
		size = 4 << (kind >> 2)
	case kind == 2:
		size = varintLen(doc[p:])
	case kind == 4:
		size = 1
		if doc[p]&0x20 != 0 {
			if n := varintLen(doc[p+1:]); n > 0 {
				size += n
			} else {
				size = len(doc) + 1
			}
		}
	case doc[p] == 0xFF:
		size = 1 + 4<<(kind>>2)
	case kind == 5 && doc[p] == 0xFE:
		size = 5
	case doc[p]&0x80 != 0:
		size = 1
	default:
		size = 4 << (kind >> 2)
	}
	if size == 0 || size > len(doc)-p {
		return -1
	}
	return p + size
}

// varintLen returns the length of a variable-length integer of at most 10 bytes, or 0 if p does not start with one.
func varintLen(p []byte) int {
	for n := 0; n < len(p) && n < 10; n++ {
		if p[n] < 0x80 {
			return n + 1
		}
	}
	return 0
}

// IDKind describes how the id of a document is stored. The field infos of a segment determine it, not the version.
type IDKind uint8

// The forms of a stored id.
const (
	IDNone   IDKind = iota // no stored id: a nested child
	IDString               // _id stored as string: the literal id (5.x with mapping.single_type)
	IDBinary               // _id stored as binary: encoded, Elasticsearch 6+ and OpenSearch
	IDUID                  // _uid stored as string "type#id", Elasticsearch 1.x–5.x
	IDSeries               // not stored: ID, Timestamp and RoutingHash determine it (time series of Elasticsearch 9.5)
)

// Record is the part of one live Lucene document that a migration needs: raw stored fields. All slices are borrowed: they are valid until
// the reader's next step.
type Record struct {
	// Ordinal is the Lucene docID plus the maxDoc of all earlier segments of the
	// commit, segments ordered by name as strings, dead segments included.
	Ordinal int64
	Segment *Segment
	DocID   int32 // docID within the segment

	IDKind IDKind
	ID     []byte // nil when IDKind is IDNone
	// Timestamp and RoutingHash (in the form of a binary _id) belong to IDSeries, whose ID is the _tsid.
	Timestamp   int64
	RoutingHash []byte
	Routing     []byte // nil when not stored
	Parent      []byte // _parent as stored by 1.x and 2.x ("type#id"); nil when not stored

	// HasSource is also set if a source that is not stored was rebuilt into Source (Rebuilt).
	HasSource      bool
	Source         []byte // _source as stored; may be empty even when HasSource
	HasRecovery    bool
	RecoverySource []byte // _recovery_source as stored
	// Giant marks a long document, for which Memory.Hold was called. Beyond and RecoveryBeyond are the lengths of a _source and a
	// _recovery_source that were not kept because they exceed Memory.MaxSource; else 0.
	Giant                  bool
	Beyond, RecoveryBeyond int64
	Rebuilt                bool  // Source was rebuilt from Values
	Unbuilt                error // why it could not be rebuilt
	Patched                bool  // the vectors that the stored source lacks were restored
	// Values are the other fields of the document; nil unless ReadOptions.Values is set.
	Values *Values

	Version int64 // 0 unless ReadOptions.Versions is set

	SyntheticParts bool // _ignored_source or similar is stored: the source is synthetic

	drop func() // nil unless Giant
}

// Drop releases the memory of a Giant record before the reader's next step. Its slices are nil afterwards.
func (r *Record) Drop() {
	if r.drop != nil {
		r.drop()
		r.drop = nil
		r.ID, r.RoutingHash, r.Routing, r.Parent, r.Source, r.RecoverySource, r.Values = nil, nil, nil, nil, nil, nil, nil
	}
}
