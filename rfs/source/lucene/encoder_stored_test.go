package lucene

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// storedEncoder writes .fdt, .fdx and .fdm.
type storedEncoder struct {
	spec  segmentSpec
	t     testing.TB
	first []int
	at    []int64
}

func (e *storedEncoder) write(dir mapDir) {
	s := e.spec
	layout := storedFormats[s.fdt].layout
	var o out
	if storedFormats[s.fdt].plain {
		o.header(s.fdt, s.version)
	} else {
		o.indexHeader(s.fdt, s.version, "")
	}
	_, is40 := layout.(g40)
	if is40 {
		e.write40(&o, dir)
		return
	}
	_, is41 := layout.(g41)
	_, is90 := layout.(g90)
	if is41 && s.version >= 1 || !is41 && !is90 && s.version <= 2 {
		o.vint(s.chunkSize)
	}
	if is41 || !is90 && s.version <= 2 {
		o.vint(s.packed)
	}
	for d := 0; d < len(s.docs); {
		d += e.chunk(&o, d)
	}
	maxPointer := int64(len(o.b))
	if !is41 && !is90 && (s.version == 1 || s.version == 2) {
		o.vlong(int64(len(e.at)))
		o.vlong(0)
	}
	if !is41 || s.version >= 2 {
		o.footer()
	}
	dir["_0.fdt"] = o.b
	if is41 || !is90 && s.version < 2 {
		dir["_0.fdx"] = e.legacyIndex(maxPointer, is41)
		return
	}
	e.modernIndex(dir, maxPointer, is90)
}

func (e *storedEncoder) write40(o *out, dir mapDir) {
	var x out
	x.header("Lucene40StoredFieldsIndex", 0)
	for _, d := range e.spec.docs {
		x.be64(int64(len(o.b)))
		o.bytes(d.encode(true))
	}
	dir["_0.fdt"], dir["_0.fdx"] = o.b, x.b
}

// chunk writes the documents from d on and returns how many.
func (e *storedEncoder) chunk(o *out, d int) int {
	s := e.spec
	e.first = append(e.first, d)
	e.at = append(e.at, int64(len(o.b)))
	var raw []byte
	var fields, lengths []int
	for ; d+len(fields) < len(s.docs) && len(fields) < s.chunkDocs && len(raw) < s.chunkSize; fields = append(fields, 0) {
		doc := s.docs[d+len(fields)]
		b := doc.encode(false)
		raw = append(raw, b...)
		lengths = append(lengths, len(b))
	}
	for i := range fields {
		fields[i] = len(s.docs[d+i])
	}
	sliced := len(raw) >= 2*s.chunkSize
	o.vint(d)
	flag := 0
	if sliced {
		flag = 1
	}
	switch storedFormats[s.fdt].layout.(type) {
	case g41:
		o.vint(len(fields))
		sliced = sliced && s.version >= 1
	case g50:
		if s.version < 4 {
			o.vint(len(fields)<<1 | flag)
		} else {
			o.vint(len(fields)<<2 | 2 | flag)
		}
	case g90:
		o.vint(len(fields)<<2 | flag)
	}
	if len(fields) == 1 {
		o.vint(fields[0])
		o.vint(lengths[0])
	} else {
		e.ints(o, fields)
		e.ints(o, lengths)
	}
	if len(raw) == 0 {
		o.bytes([]byte{0, 0, 1, 0})
		return len(fields)
	}
	for len(raw) > 0 {
		n := len(raw)
		if sliced {
			n = min(n, s.chunkSize)
		}
		o.bytes(compressUnit(e.t, s.fdt, raw[:n]))
		raw = raw[n:]
	}
	return len(fields)
}

func (e *storedEncoder) ints(o *out, v []int) {
	if _, ok := storedFormats[e.spec.fdt].layout.(g90); ok {
		o.bytes(storedInts(v))
		return
	}
	if slices.Max(v) == slices.Min(v) {
		o.vint(0)
		o.vint(v[0])
		return
	}
	bits := 1
	for slices.Max(v)>>bits != 0 {
		bits++
	}
	o.vint(bits)
	var acc string
	for _, x := range v {
		acc += fmt.Sprintf("%0*b", bits, x)
	}
	unit := 8
	if e.spec.packed == 0 {
		unit = 64
	}
	for len(acc)%unit != 0 {
		acc += "0"
	}
	for ; acc != ""; acc = acc[8:] {
		var c int
		for _, r := range acc[:8] {
			c = c<<1 | int(r-'0')
		}
		o.u8(c)
	}
}

// storedInts writes integers as Lucene 9 does.
func storedInts(v []int) []byte {
	var o out
	o.le = true
	most := slices.Max(v)
	if most == slices.Min(v) {
		o.u8(0)
		o.vint(v[0])
		return o.b
	}
	width := 32
	if most < 1<<8 {
		width = 8
	} else if most < 1<<16 {
		width = 16
	}
	o.u8(width)
	lanes := 64 / width
	rows := 128 / lanes
	for ; len(v) >= 128; v = v[128:] {
		for r := range rows {
			var l uint64
			for q := range lanes {
				l = l<<width | uint64(v[r+q*rows])
			}
			o.i64(int64(l))
		}
	}
	for _, x := range v {
		for i := 0; i < width; i += 8 {
			o.u8(x >> i)
		}
	}
	return o.b
}

func (e *storedEncoder) legacyIndex(maxPointer int64, plain bool) []byte {
	var o out
	name := strings.TrimSuffix(e.spec.fdt, "Data") + "Index"
	if plain {
		o.header(name, e.spec.version)
	} else {
		o.indexHeader(name, e.spec.version, "")
	}
	o.vint(e.spec.packed)
	for k := range e.at {
		o.vint(1)
		o.vint(e.first[k])
		o.vint(0)
		o.vint(0)
		o.vlong(e.at[k])
		o.vlong(0)
		o.vint(0)
	}
	o.vint(0)
	if !plain || e.spec.version >= 2 {
		o.vlong(maxPointer)
		return o.footer()
	}
	return o.b
}

func (e *storedEncoder) modernIndex(dir mapDir, maxPointer int64, is90 bool) {
	s := e.spec
	gen, metaVersion := "Lucene85", max(0, s.version-0)
	if is90 {
		gen, metaVersion = "Lucene90", 1
	} else if s.version == 2 {
		metaVersion = 0
	}
	docs := append(slices.Clone(e.first), len(s.docs))
	points := append(slices.Clone(e.at), maxPointer)
	var x, m out
	x.indexHeader(gen+"FieldsIndexIdx", 0, "")
	m.indexHeader(gen+"FieldsIndexMeta", metaVersion, "")
	if is90 || s.version >= 3 {
		m.vint(s.chunkSize)
	}
	if !is90 && s.version >= 3 {
		m.vint(s.packed)
	}
	const shift = 10
	m.i32(len(s.docs))
	m.i32(shift)
	m.i32(len(docs))
	mono := func(value func(i int) int64) {
		start := int64(len(x.b))
		m.i64(start)
		for i := 0; i < len(docs); i += 1 << shift {
			m.i64(0)
			m.i32(0)
			m.i64(int64(len(x.b)) - start)
			m.u8(64)
			for k := i; k < min(len(docs), i+1<<shift); k++ {
				x.i64(value(k))
			}
		}
	}
	mono(func(i int) int64 { return int64(docs[i]) })
	mono(func(i int) int64 { return points[i] })
	m.i64(int64(len(x.b)))
	m.i64(maxPointer)
	if is90 || s.version >= 4 {
		m.vlong(int64(len(e.at)))
	}
	if is90 || s.version >= 3 {
		m.vlong(0)
		m.vlong(0)
	}
	dir["_0.fdx"], dir["_0.fdm"] = x.footer(), m.footer()
}
