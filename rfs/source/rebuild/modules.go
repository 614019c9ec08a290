package rebuild

import (
	"context"
	"math"
	"slices"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// appendVersion appends a version (VersionEncoder of Elasticsearch 7.10 and later). To make versions sortable, bytes 1 and 128 + length
// precede each number, and byte 2 or 3 follows the main part. Text that is not a version has none of these bytes, except for the empty
// string, which is byte 3.
func appendVersion(dst, v []byte) []byte {
	plain := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case 1:
			i++
		case 2, 3:
		default:
			plain = append(plain, v[i])
		}
	}
	return appendUTF8(dst, plain)
}

// wildcardLayers returns the layers of a wildcard: its binary column, and the values that ignore_above excluded (WildcardFieldMapper of
// Elasticsearch 8.5 and later).
func (s *segment) wildcardLayers(ctx context.Context, f *node) ([]layer, string, error) {
	original, err := s.originalLayer(ctx, f)
	if err != nil {
		return nil, "", err
	}
	b, err := s.blobsOf(ctx, f.path)
	if err != nil {
		return nil, "", err
	}
	if b == nil {
		c, err := s.column(ctx, f.path)
		return []layer{original}, expect(c, columns.Binary), err
	}
	return []layer{blobText{b, appendUTF8}, original}, "", nil
}

// docCount is the field that states the number of documents that one document represents, as in a downsampled index. No mapping contains
// it.
const docCount = "_doc_count"

// addCount adds docCount to the fields of a root.
func (n *node) addCount() {
	n.children = append(n.children, &node{path: docCount, leaf: docCount, kind: docCount, params: &params{}})
	slices.SortFunc(n.children, func(a, b *node) int { return compareJava(a.path, b.path) })
}

// count is the frequency of the only term of a field.
type count struct{ terms *lucene.Features }

// countLayers returns the layers of _doc_count: a column since Elasticsearch 9.5, before that the frequency of its only term.
func (s *segment) countLayers(ctx context.Context) ([]layer, string, error) {
	c, err := s.column(ctx, docCount)
	if err != nil {
		return nil, "", err
	}
	if c != nil {
		return []layer{&numbers{column: c, render: appendLong}}, expect(c, columns.Numeric, columns.SortedNumeric), nil
	}
	const share = 8 // of the memory for terms
	terms, err := s.values.Features(ctx, docCount, share)
	if terms == nil || err != nil {
		return nil, "", err
	}
	return []layer{count{terms}}, "", nil
}

func (l count) load(ctx context.Context, s *segment, out *values) error {
	tokens, err := l.terms.Of(ctx, s.doc)
	if err != nil || len(tokens) == 0 {
		return err
	}
	if len(tokens) > 1 || tokens[0].Position <= 0 {
		return &Unknown{Reason: "a number of documents that is none"}
	}
	if err := out.next(); err != nil {
		return err
	}
	out.b = appendLong(out.b, int64(tokens[0].Position))
	return nil
}

// metricNames are the metrics of an aggregate_metric_double, in the order in which they are written.
var metricNames = []string{"min", "max", "sum", "value_count"}

// metrics is an aggregate_metric_double: one column for each metric (AggregateMetricDoubleFieldMapper of Elasticsearch 8.5 and later).
type metrics struct {
	columns []*lucene.Column // by index of their names; nil if the segment lacks it
}

func (s *segment) metricLayers(ctx context.Context, f *node) ([]layer, string, error) {
	l := &metrics{}
	for _, name := range metricNames {
		c, err := s.column(ctx, f.path+"."+name)
		if err != nil {
			return nil, "", err
		}
		if unknown := expect(c, columns.Numeric, columns.SortedNumeric); unknown != "" {
			return nil, unknown, nil
		}
		l.columns = append(l.columns, c)
	}
	bad, err := s.malformedLayer(ctx, f)
	return []layer{l, bad}, "", err
}

func (l *metrics) load(ctx context.Context, s *segment, out *values) error {
	some := false
	for i, c := range l.columns {
		if c == nil {
			continue
		}
		n, err := c.Advance(ctx, s.doc)
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		v, err := c.Number(ctx, 0)
		if err != nil {
			return err
		}
		if some {
			out.b = append(out.b, ',')
		} else if err := out.next(); err != nil {
			return err
		} else {
			out.b = append(out.b, '{')
		}
		some = true
		out.b = append(append(append(out.b, '"'), metricNames[i]...), '"', ':')
		if metricNames[i] == "value_count" {
			out.b = appendLong(out.b, v)
		} else {
			out.b = appendFloat(out.b, sortableDouble(v), 64)
		}
	}
	if some {
		out.b = append(out.b, '}')
	}
	return nil
}

// histogram is a binary column: for each bucket its count, a VLong, and its value, the 8 bytes of a double (HistogramFieldMapper of
// Elasticsearch 8.5 and later).
type histogram struct {
	column *lucene.Column // nil when no document of the segment has a value
}

func (s *segment) histogramLayers(ctx context.Context, f *node) ([]layer, string, error) {
	c, err := s.column(ctx, f.path)
	if err != nil {
		return nil, "", err
	}
	bad, err := s.malformedLayer(ctx, f)
	return []layer{histogram{c}, bad}, expect(c, columns.Binary), err
}

func (l histogram) load(ctx context.Context, s *segment, out *values) error {
	if l.column == nil {
		return nil
	}
	n, err := l.column.Advance(ctx, s.doc)
	if err != nil || n == 0 {
		return err
	}
	b, err := l.column.Bytes(ctx, 0)
	if err == nil {
		err = out.next()
	}
	if err != nil {
		return err
	}
	out.b, err = appendHistogram(out.b, b, out.most)
	return err
}

// appendHistogram appends a histogram of at most most bytes; 0 means no limit.
func appendHistogram(dst, b []byte, most int) ([]byte, error) {
	dst = append(dst, `{"values":`...)
	dst, err := appendBuckets(dst, b, most, func(dst []byte, _ int64, value float64) []byte { return appendFloat(dst, value, 64) })
	if err != nil {
		return dst, err
	}
	dst = append(dst, `,"counts":`...)
	dst, err = appendBuckets(dst, b, most, func(dst []byte, count int64, _ float64) []byte { return appendLong(dst, count) })
	return append(dst, '}'), err
}

// appendBuckets appends one number of each bucket as an array.
func appendBuckets(dst, b []byte, most int, number func(dst []byte, count int64, value float64) []byte) ([]byte, error) {
	dst = append(dst, '[')
	for in := codec.NewInput(b); in.Left() > 0; {
		count := in.VLong()
		value := math.Float64frombits(uint64(in.I64()))
		if in.Err() != nil {
			return dst, in.Err()
		}
		if count <= 0 {
			return dst, codec.Errorf(0, "a bucket of %d values", count)
		}
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		if dst = number(dst, count, value); most > 0 && len(dst) > most {
			return dst, ErrTooLong
		}
	}
	return append(dst, ']'), nil
}
