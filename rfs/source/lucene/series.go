package lucene

import (
	"context"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// Names of the columns that hold the id of a document, or from which the id of a time series is computed, in segments that do not store it
// (Elasticsearch 9.5), and of the column of the routing in the columnar modes.
const (
	storedID      = "_id"
	seriesID      = "_tsid"
	seriesTime    = "@timestamp"
	seriesHash    = "_ts_routing_hash"
	routingColumn = "_routing"
)

// idColumns returns the names of the columns that hold the ids of a segment or from which they are computed; nil if ids are stored.
func (fi *fieldInfos) idColumns() []string {
	switch f := fi.named(storedID); {
	case f == nil:
	case f.attrs[attrSyntheticID] == "true":
		return []string{seriesID, seriesTime, seriesHash}
	case f.docValues == dvBinary: // the columnar modes
		if fi.column(routingColumn) != nil {
			return []string{storedID, routingColumn}
		}
		return []string{storedID}
	}
	return nil
}

// series reads ids that are not stored fields: the components of a time series id, or the ids of the columnar modes.
type series struct {
	data           []*columnData // not verified yet
	id, time, hash *columnReader // time and hash are nil if id is the whole id
	routing        *columnReader // in the columnar modes; nil if no document has one
	idBytes        []byte        // buffers
	routingBytes   []byte
}

// openSeries opens the columns that hold the ids of a segment or from which they are computed; nil if ids are stored. It reads only the
// metadata.
func openSeries(ctx context.Context, seg *Segment, infos *fieldInfos) (*series, error) {
	if infos == nil {
		return nil, nil
	}
	names := infos.idColumns()
	if names == nil {
		return nil, nil
	}
	metas := columnMetas{seg: seg, fields: infos, only: names}
	s := &series{}
	parts := map[string]**columnReader{storedID: &s.id, seriesID: &s.id, seriesTime: &s.time, seriesHash: &s.hash, routingColumn: &s.routing}
	for _, name := range names {
		f := infos.column(name)
		if f == nil {
			return nil, fault.Corrupt("", seg.Name+".fnm", -1, "ids are not stored, and column %s does not exist", name)
		}
		c, err := metas.open(ctx, f)
		if err != nil {
			return nil, err
		}
		if c == nil {
			return nil, fmt.Errorf("%s: ids need column %s in doc values of format %q, which is unknown: %w",
				seg.Name, name, f.attrs[attrFormat], fault.ErrUnsupported)
		}
		if *parts[name], err = c.reader(int32(seg.MaxDoc)); err != nil {
			return nil, err
		}
		if !slices.Contains(s.data, c.columnData) {
			s.data = append(s.data, c.columnData)
		}
	}
	return s, nil
}

// fill sets the parts of the id of a document without a stored id. The files are verified before the first id is read, because a damaged
// value would yield another valid id.
func (s *series) fill(ctx context.Context, rec *Record) error {
	for len(s.data) > 0 {
		if err := s.data[0].verify(ctx); err != nil {
			return err
		}
		s.data = s.data[1:]
	}
	var err error
	if s.idBytes, err = s.id.bytes(ctx, rec.DocID, s.idBytes); err != nil {
		return err
	}
	if s.hash == nil {
		rec.IDKind, rec.ID = IDBinary, s.idBytes
		return s.fillRouting(ctx, rec)
	}
	if s.routingBytes, err = s.hash.bytes(ctx, rec.DocID, s.routingBytes); err != nil {
		return err
	}
	if rec.Timestamp, err = s.time.number(ctx, rec.DocID); err != nil {
		return err
	}
	rec.IDKind, rec.ID, rec.RoutingHash = IDSeries, s.idBytes, s.routingBytes
	return nil
}

// fillRouting sets the routing of a document that has one.
func (s *series) fillRouting(ctx context.Context, rec *Record) error {
	if s.routing == nil {
		return nil
	}
	n, err := s.routing.values.Advance(ctx, rec.DocID)
	if err != nil || n == 0 {
		return s.routing.wrap(err)
	}
	if s.routingBytes, err = s.routing.bytes(ctx, rec.DocID, s.routingBytes); err != nil {
		return err
	}
	rec.Routing = s.routingBytes
	return nil
}

// columnReader reads a column with exactly one value in each document that it is asked for.
type columnReader struct {
	*column
	values *columns.Reader
}

func (c *column) reader(maxDoc int32) (*columnReader, error) {
	r, err := c.entry.NewReader(c, maxDoc)
	if err != nil {
		return nil, c.wrap(err)
	}
	return &columnReader{column: c, values: r}, nil
}

func (c *columnReader) only(ctx context.Context, doc int32) error {
	n, err := c.values.Advance(ctx, doc)
	if err == nil && n != 1 {
		err = codec.Errorf(-1, "document %d has %d values, not one", doc, n)
	}
	return err
}

func (c *columnReader) number(ctx context.Context, doc int32) (v int64, err error) {
	if err = c.only(ctx, doc); err == nil {
		v, err = c.values.Number(ctx, 0)
	}
	return v, c.wrap(err)
}

// bytes returns the value of a document in buf, which it overwrites.
func (c *columnReader) bytes(ctx context.Context, doc int32, buf []byte) ([]byte, error) {
	var b []byte
	err := c.only(ctx, doc)
	if err == nil {
		b, err = c.values.Bytes(ctx, 0)
	}
	return append(buf[:0], b...), c.wrap(err)
}
