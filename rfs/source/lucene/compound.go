package lucene

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
.cfe, the table of a compound file .cfs: header, VInt n, n of (str name without the
segment's, i64 offset in the .cfs, i64 length), footer (Lucene 4.8 and later). Codecs
CompoundFileWriterEntries (4.x, plain header), Lucene50CompoundEntries (big-endian) and
Lucene90CompoundEntries (little-endian). The files inside keep their headers and footers.
*/
type section struct{ off, size int64 }

var compoundPlain = map[string]bool{
	"CompoundFileWriterEntries": true,
	"Lucene50CompoundEntries":   false,
	"Lucene90CompoundEntries":   false,
}

func parseCompound(b []byte, id string) (map[string]section, error) {
	in := codec.NewInput(b)
	h := in.Header()
	if in.Err() != nil {
		return nil, in.Err()
	}
	plain, ok := compoundPlain[h.Codec]
	if !ok {
		return nil, fmt.Errorf("compound file of codec %q is unknown: %w", h.Codec, fault.ErrUnsupported)
	}
	if !plain {
		checkID(in, id)
		in.Take(int(in.U8()))
	}
	n := in.Count(17)
	m := make(map[string]section, n)
	for range n {
		name := in.String()
		s := section{in.I64(), in.I64()}
		if s.off < 0 || s.size < 0 {
			in.Fail("section %q at %d of %d bytes", name, s.off, s.size)
		}
		m[name] = s
	}
	return m, in.Err()
}

// checkID reads the 16 bytes of a segment id and compares them with id unless that is "".
func checkID(in *codec.Input, id string) {
	if got := string(in.Take(16)); in.Err() == nil && id != "" && got != id {
		in.Fail("the file belongs to segment %x, not %x", got, id)
	}
}

// files opens the files of one segment, inside its compound file or next to it.
type files struct {
	dir      Directory
	segment  string
	compound *source
	sections map[string]section
	early    *earlyReads       // nil unless the segment is being opened
	kept     map[string][]byte // short files, by suffix
}

func openFiles(ctx context.Context, dir Directory, segment, id string, compound bool, early *earlyReads) (*files, error) {
	f := &files{dir: dir, segment: segment, early: early}
	if !compound {
		return f, nil
	}
	table, err := openSource(dir, segment+".cfe")
	if err != nil {
		return nil, err
	}
	b, err := early.serve(table).readAll(ctx)
	if err != nil {
		return nil, err
	}
	if f.sections, err = parseCompound(b, id); err != nil {
		return nil, table.wrap(err)
	}
	if f.compound, err = openSource(dir, segment+".cfs"); err != nil {
		return nil, err
	}
	for name, s := range f.sections {
		if s.off > f.compound.size || s.size > f.compound.size-s.off {
			return nil, table.corrupt(-1, "section %s at %d of %d bytes lies beyond the end of a .cfs of %d", name, s.off, s.size, f.compound.size)
		}
	}
	if early.serve(f.compound); f.compound.size <= cachedCompound {
		return f, f.compound.cache(ctx)
	}
	return f, nil
}

// core opens a file of the segment as it was first written. suffix is the part of its name after the segment's name, such as ".fdt" or
// "_Lucene80_0.dvd".
func (f *files) core(suffix string) (*source, error) {
	if f.compound == nil {
		src, err := openSource(f.dir, f.segment+suffix)
		if err != nil {
			return nil, err
		}
		return f.hold(src, suffix), nil
	}
	s, ok := f.sections[suffix]
	if !ok {
		return nil, f.compound.corrupt(-1, "the compound file holds no %s", suffix)
	}
	return f.hold(f.compound.section(f.segment+suffix, s.off, s.size), suffix), nil
}

// hold returns s after making it serve bytes that were already read from memory.
func (f *files) hold(s *source, suffix string) *source {
	if b := f.kept[suffix]; b != nil {
		s.held = b
	}
	return f.early.serve(s)
}

// later opens a file of a later generation, which is never in the compound file.
func (f *files) later(gen int64, suffix string) (*source, error) {
	src, err := openSource(f.dir, laterName(f.segment, gen, suffix))
	if err != nil {
		return nil, err
	}
	return f.early.serve(src), nil
}

// laterName returns the name of a file that was written after its segment.
func laterName(segment string, gen int64, suffix string) string {
	return segment + "_" + codec.Base36(gen) + suffix
}

// forget drops the data that is only held while the segment is opened.
func (f *files) forget() {
	f.early = nil
	if f.compound != nil {
		f.compound = f.compound.uncached()
	}
}
