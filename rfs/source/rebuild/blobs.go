package rebuild

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// suffixCounts is the column that counts the values of a binary column since Elasticsearch 9.5.
const suffixCounts = ".counts"

// countsApart is the version from which on only values of the type binary contain their number
// (IndexVersions.DEPRECATE_INTEGRATED_COUNTS_BINARY_DOC_VALUES).
const countsApart = 9_095_000

// blobs is a binary column that joins several values, each preceded by its length, a VInt. <name>.counts states their number; a single
// value then has no length. Without that column the number, a VInt, precedes the values.
type blobs struct {
	column *lucene.Column
	counts *lucene.Column // nil: the number of values is in the column itself
}

// blobsOf returns the values of a binary column; nil if the segment has no binary column of that name.
func (s *segment) blobsOf(ctx context.Context, name string) (*blobs, error) {
	c, err := s.column(ctx, name)
	if c == nil || err != nil || c.Kind() != columns.Binary {
		return nil, err
	}
	b, err := s.counted(ctx, c, name)
	if err == nil && b.counts == nil && s.created >= countsApart {
		err = fmt.Errorf("%s: bytes without the number of their values: %w", name, fault.ErrUnsupported)
	}
	return b, err
}

// counted returns the values of a binary column, with their number in either form.
func (s *segment) counted(ctx context.Context, c *lucene.Column, name string) (*blobs, error) {
	n, err := s.column(ctx, name+suffixCounts)
	if err != nil {
		return nil, err
	}
	if n != nil && n.Kind() != columns.Numeric {
		return nil, fault.ErrUnsupported
	}
	return &blobs{c, n}, nil
}

// each calls yield for each value of a document; the values are borrowed until the next call.
func (l *blobs) each(ctx context.Context, doc int32, yield func([]byte) error) error {
	n, err := l.column.Advance(ctx, doc)
	if err != nil || n == 0 {
		return err
	}
	b, err := l.column.Bytes(ctx, 0)
	if err != nil {
		return err
	}
	if l.counts == nil {
		in := codec.NewInput(b)
		count := int64(in.VInt())
		if in.Err() != nil {
			return in.Err()
		}
		return splitBlobs(in.Rest(), count, yield)
	}
	count, err := l.count(ctx, doc)
	if err != nil {
		return err
	}
	if count == 1 {
		return yield(b)
	}
	return splitBlobs(b, count, yield)
}

// splitBlobs calls yield for each of count values, each after its length.
func splitBlobs(b []byte, count int64, yield func([]byte) error) error {
	if count < 0 || count > int64(len(b)) {
		return codec.Errorf(0, "%d values in %d bytes", count, len(b))
	}
	in := codec.NewInput(b)
	for range count {
		v := in.Take(int(in.VInt()))
		if in.Err() != nil {
			return in.Err()
		}
		if err := yield(v); err != nil {
			return err
		}
	}
	if in.Left() != 0 {
		in.Fail("%d bytes left after %d values", in.Left(), count)
	}
	return in.Err()
}

// count returns the number of values of a document that has bytes.
func (l *blobs) count(ctx context.Context, doc int32) (int64, error) {
	n, err := l.counts.Advance(ctx, doc)
	if err != nil {
		return 0, err
	}
	if n != 1 {
		return 0, codec.Errorf(0, "a binary value without its count")
	}
	return l.counts.Number(ctx, 0)
}

// blobText is text in a binary column.
type blobText struct {
	*blobs
	render renderBytes
}

func (l blobText) load(ctx context.Context, s *segment, out *values) error {
	return l.each(ctx, s.doc, func(b []byte) error {
		if err := out.next(); err != nil {
			return err
		}
		return renderOne(out, b, l.render)
	})
}

// blobMalformed is a binary column of values that the type could not accept.
type blobMalformed struct{ *blobs }

func (l blobMalformed) load(ctx context.Context, s *segment, out *values) error {
	return l.each(ctx, s.doc, func(b []byte) (err error) {
		if err := out.next(); err != nil {
			return err
		}
		if len(b) == 0 {
			return codec.Errorf(0, "an ignored value without a type")
		}
		out.b, err = appendIgnored(out.b, b, s.convert)
		return err
	})
}
