package postings

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
The list of the fields of a dictionary: VInt n, then for each

	VInt field | VLong terms | not trie: VInt n, n bytes: root | VLong positions [with frequencies: VLong postings]
	VInt documents | dictionary 4 since version 2, dictionary 5 before 4: VInt
	dictionary 4 since version 4, all later: VInt n, least term | VInt n, greatest term
	.tmd: VLong start of the index | trie: VLong root, VLong end
	                               | else header FST, u8; if it is 1: VInt n, n bytes; u8, VLong, VLong

The list is in .tmd after two headers (the second is the postings', followed by VInt N), or near the end of .tim, at the
offset that an i64 before the footer states. The root is a VLong whose bits from 2 on are the offset of the root block. In
dictionary 9 since version 1 its most significant bits come first.
*/

// Versions of dictionary 4. Since appendOnly4 (Lucene 4.2) an i64 at the end of .tim states the offset of the list of fields; since
// metaArray4 (4.7) the offsets of documents and positions are stored apart from the other metadata of a term.
const (
	appendOnly4 = 1
	metaArray4  = 2
)

// Files are the files of the fields that share a format and a suffix. Every file must be non-nil; for a file that the segment
// lacks, reads return an error of that file.
type Files struct{ Terms, Docs, Positions, Meta, Index Data }

// Dictionary holds the terms of the fields that share a format and a suffix in a segment.
type Dictionary struct {
	layout
	files  Files
	plain  bool // no .tmd
	coded  bool // suffixes may be compressed, their lengths are stored apart
	longs  bool // the offset of documents in the metadata of a term has no flag bit
	mixed  bool // decodeMixed reads the metadata of terms (before Lucene 4.7)
	fields map[int32]*field
}

// field holds the properties of a field in a dictionary.
type field struct {
	Options
	terms     int64
	positions int64
	root      int64 // offset of the root block
}

// Open reads the list of fields. options returns the index options of a field, false if it does not exist. id is the segment's id, "" if it
// is unknown.
func Open(ctx context.Context, format, id string, files Files, options func(number int32) (Options, bool)) (*Dictionary, error) {
	l, ok := layouts[format]
	if !ok {
		return nil, fmt.Errorf("postings of format %q are unknown: %w", format, fault.ErrUnsupported)
	}
	d := &Dictionary{layout: l, files: files, fields: map[int32]*field{}}
	c := newCursor(ctx, files.Terms)
	want := "BlockTreeTermsDict"
	if l.dictionary == dictionary4 {
		want = "BLOCK_TREE_TERMS_DICT"
	}
	version := header(c, id, want, l.dictionary == dictionary4)
	least, most := map[dictionaryKind]int32{dictionary4: appendOnly4}[l.dictionary], map[dictionaryKind]int32{dictionary4: 4, dictionary5: 6, dictionary9: 2}[l.dictionary]
	if c.err == nil && (version < least || version > most) {
		return nil, fmt.Errorf("terms of version %d of %s are unknown: %w", version, format, fault.ErrUnsupported)
	}
	d.coded = l.dictionary >= dictionary9 || l.dictionary == dictionary5 && version >= 5
	d.mixed = l.dictionary == dictionary4 && version < metaArray4
	d.longs = l.dictionary == dictionary4 && !d.mixed || l.dictionary == dictionary5 && version < 4
	if d.plain = l.dictionary == dictionary4 || l.dictionary == dictionary5 && version < 6; d.plain {
		d.seekFields(c, version)
	} else {
		c = newCursor(ctx, files.Meta)
		header(c, id, "BlockTreeTermsMeta", false)
		header(c, id, "", false)
		if n := c.vint(); c.err == nil && int(n) != l.block {
			c.fail("blocks of %d", n)
		}
	}
	for n := c.vint(); n > 0 && c.err == nil; n-- {
		d.readField(ctx, c, version, options)
	}
	return d, c.err
}

// header reads the header of a file and returns its version.
func header(c *cursor, id, want string, plain bool) int32 {
	p := c.take(4)
	if p != nil && binary.BigEndian.Uint32(p) != 0x3FD76C17 {
		c.fail("not a Lucene header: it starts with %08x", p)
	}
	name := string(c.take(int64(c.vint())))
	if c.err == nil && want != "" && name != want {
		c.fail("codec %q where %q is expected", name, want)
	}
	version := int32(0)
	if p := c.take(4); p != nil {
		version = int32(binary.BigEndian.Uint32(p))
	}
	if plain {
		return version
	}
	if p := c.take(16); p != nil && id != "" && string(p) != id {
		c.fail("the file belongs to segment %x, not %x", p, id)
	}
	c.take(int64(c.u8()))
	return version
}

// seekFields moves to the list of fields, near the end of .tim.
func (d *Dictionary) seekFields(c *cursor, version int32) {
	end := c.data.Size()
	if d.dictionary != dictionary4 || version >= 3 {
		end -= codec.FooterLen
	}
	c.seek(end - 8)
	if p := c.take(8); p != nil {
		c.seek(int64(binary.BigEndian.Uint64(p)))
	}
}

func (d *Dictionary) readField(ctx context.Context, c *cursor, version int32, options func(int32) (Options, bool)) {
	number, f := c.vint(), &field{terms: c.vlong()}
	o, ok := options(number)
	if c.err == nil && (!ok || f.terms <= 0 || d.fields[number] != nil) {
		c.fail("field %d of %d terms", number, f.terms)
	}
	f.Options = o
	if d.dictionary != dictionaryTrie {
		root := c.take(int64(c.vint()))
		f.root = rootOf(root, d.dictionary == dictionary9 && version >= 1)
	}
	if f.positions = c.vlong(); o.Frequencies {
		c.vlong()
	}
	c.vint()
	if d.longs {
		c.vint()
	}
	if d.dictionary != dictionary4 || version >= 4 {
		c.take(int64(c.vint()))
		c.take(int64(c.vint()))
	}
	switch {
	case d.dictionary == dictionaryTrie:
		begin := c.vlong()
		root := c.vlong()
		c.vlong()
		if c.err == nil {
			f.root, c.err = trieRoot(ctx, d.files.Index, begin+root)
		}
	case !d.plain:
		c.vlong()
		d.passIndex(c)
	}
	if c.err == nil {
		d.fields[number] = f
	}
}

// passIndex skips the metadata of a term index.
func (d *Dictionary) passIndex(c *cursor) {
	c.take(4)
	c.take(int64(c.vint()))
	c.take(4)
	if c.u8() == 1 {
		c.take(int64(c.vint()))
	}
	c.u8()
	c.vlong()
	c.vlong()
}

// rootOf returns the offset of the root block.
func rootOf(p []byte, highFirst bool) int64 {
	var v uint64
	for i, b := range p {
		if highFirst {
			v = v<<7 | uint64(b&0x7f)
		} else if i < 10 {
			v |= uint64(b&0x7f) << (7 * i)
		}
		if b < 0x80 {
			break
		}
	}
	return int64(v >> 2)
}

/*
The root of a trie starts with 8 bytes, little-endian. Bits 0 and 1: 0 no child, 1 one child and an output, 2 one child without
output, 3 several children. An output holds the offset of the block.

	0  bits 2-4 length-1, then from byte 1 on the offset of the block
	1  bits 2-4 length-1 of the child's offset, bits 5-7 length-1 of the output, which follows it: 2 bits, the offset of the block
	3  bit 5 output, bits 6-8 its length-1; it starts at byte 3
*/
func trieRoot(ctx context.Context, index Data, at int64) (int64, error) {
	c := newCursor(ctx, index)
	c.seek(at)
	p := c.take(20) // a footer follows all nodes
	if p == nil {
		return 0, c.err
	}
	number := func(off, n int) (v int64) {
		for i := n; i > 0; i-- {
			v = v<<8 | int64(p[off+i-1])
		}
		return v
	}
	head := binary.LittleEndian.Uint32(p)
	switch head & 3 {
	case 0:
		return number(1, int(head>>2&7)+1), nil
	case 1:
		return number(int(head>>2&7)+3, int(head>>5&7)+1) >> 2, nil
	case 3:
		if head>>5&1 != 0 {
			return number(3, int(head>>6&7)+1) >> 2, nil
		}
	}
	c.fail("the root of a trie without a block")
	return 0, c.err
}
