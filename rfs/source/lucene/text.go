package lucene

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
	"github.com/rfsd/rfsd/rfs/source/lucene/postings"
)

// heldText bounds the memory of the terms of all fields of a segment that are read as text, in bytes.
const heldText = 32 << 20

// leastText is the memory that each of these fields may use regardless of their number, in bytes.
const leastText = 256 << 10

// Text reads the terms of a field of a segment, document by document.
type Text struct {
	name  string
	terms *postings.Text
}

// Tokens returns the terms of a document by ascending position, valid until the next call. It returns columns.ErrLong if a document has
// more terms than fit in memory.
func (t *Text) Tokens(ctx context.Context, doc int32) ([]postings.Token, error) {
	all, err := t.terms.Tokens(ctx, doc)
	if errors.Is(err, postings.ErrLong) {
		err = fmt.Errorf("field %s: %w: %w", t.name, err, columns.ErrLong)
	}
	return all, err
}

// Text returns the terms of an indexed field, or nil if no document of the segment has a term. The given number of fields share the memory.
// The files are verified before Text returns.
func (v *Values) Text(ctx context.Context, name string, fields int) (*Text, error) {
	f := v.infos.byName[name]
	if f != nil && f.indexed && !f.index.Positions {
		return nil, fmt.Errorf("field %s: its positions are not indexed: %w", name, fault.ErrUnsupported)
	}
	return v.terms(ctx, name, heldText/int64(max(fields, 1)))
}

// Terms is Text for a field whose positions are not needed and may not be indexed. It holds at most an eighth of the memory for text.
func (v *Values) Terms(ctx context.Context, name string) (*Text, error) {
	return v.terms(ctx, name, heldText/8)
}

func (v *Values) terms(ctx context.Context, name string, most int64) (*Text, error) {
	f := v.infos.byName[name]
	if f == nil || !f.indexed {
		return nil, nil
	}
	format := f.attrs[attrPostings]
	if !postings.Known(format) {
		return nil, fmt.Errorf("field %s: postings of format %q are unknown: %w", name, format, fault.ErrUnsupported)
	}
	suffix := format + "_" + f.attrs[attrPostingsSuffix]
	d := v.dictionaries[suffix]
	if d == nil {
		var err error
		if d, err = v.dictionary(ctx, format, suffix, true); err != nil {
			return nil, err
		}
		if v.dictionaries == nil {
			v.dictionaries = map[string]*postings.Dictionary{}
		}
		v.dictionaries[suffix] = d
	}
	terms := d.NewText(f.number, int32(v.seg.MaxDoc), max(most, leastText))
	if terms == nil {
		return nil, nil
	}
	return &Text{name, terms}, nil
}

// dictionary opens the files that the fields of a format and suffix share, and verifies all of them, or else those with the terms.
func (v *Values) dictionary(ctx context.Context, format, suffix string, all bool) (*postings.Dictionary, error) {
	open := func(ext string) (postings.Data, error) {
		s, err := v.seg.files.core("_" + suffix + ext)
		if err != nil {
			return nil, err
		}
		if all || ext != ".doc" && ext != ".pos" {
			if err := s.verify(ctx); err != nil {
				return nil, err
			}
		}
		return postingsFile{s}, nil
	}
	var files postings.Files
	var err error
	for _, x := range []struct {
		ext   string
		to    *postings.Data
		wants bool
	}{
		{".tim", &files.Terms, true}, {".doc", &files.Docs, true}, {".pos", &files.Positions, v.positions(suffix)},
		{".tmd", &files.Meta, postings.HasMeta(format) && v.has("_"+suffix+".tmd")}, {".tip", &files.Index, postings.HasIndex(format)},
	} {
		if *x.to = (absentFile{v.seg.Name + "_" + suffix + x.ext}); !x.wants {
			continue
		}
		if *x.to, err = open(x.ext); err != nil {
			return nil, err
		}
	}
	return postings.Open(ctx, format, v.seg.id, files, func(number int32) (postings.Options, bool) {
		f := v.infos.fields[number]
		if f == nil {
			return postings.Options{}, false
		}
		return f.index, true
	})
}

// positions reports whether a field of that format and suffix has positions.
func (v *Values) positions(suffix string) bool {
	for _, f := range v.infos.fields {
		if f.index.Positions && f.attrs[attrPostings]+"_"+f.attrs[attrPostingsSuffix] == suffix {
			return true
		}
	}
	return false
}

// has reports whether the segment has a file with that suffix.
func (v *Values) has(suffix string) bool {
	f := v.seg.files
	if f.compound != nil {
		_, ok := f.sections[suffix]
		return ok
	}
	_, err := f.dir.Open(f.segment + suffix)
	return !errors.Is(err, fs.ErrNotExist)
}

// absentFile represents a file of an inverted index that the segment lacks. The contents of another file decide whether it is read.
type absentFile struct{ name string }

// ReadAt returns no bytes.
func (f absentFile) ReadAt(context.Context, int64, int64) ([]byte, error) { return nil, f.Wrap(nil) }

// Size returns 0.
func (f absentFile) Size() int64 { return 0 }

// Wrap returns an error that reports the file as missing; it ignores its argument.
func (f absentFile) Wrap(error) error {
	return fault.Corrupt("", f.name, -1, "the segment has no such file, but another one refers to it")
}

// postingsFile is a file of an inverted index.
type postingsFile struct{ *source }

// ReadAt returns n bytes at off.
func (f postingsFile) ReadAt(ctx context.Context, off, n int64) ([]byte, error) {
	return f.readAt(ctx, off, n)
}

// Size returns the length of the file.
func (f postingsFile) Size() int64 { return f.size }

// Wrap names the file in an error about its content.
func (f postingsFile) Wrap(err error) error { return f.wrap(err) }
