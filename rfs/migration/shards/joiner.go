package shards

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// joiner adds the join field to documents. It reuses buffers and is used by one goroutine.
type joiner struct {
	join    *metadata.Join
	related map[string]bool
	out     []byte
}

// newJoiner returns the joiner for a join field; nil without one.
func newJoiner(join *metadata.Join) *joiner {
	if join == nil {
		return nil
	}
	return &joiner{join: join, related: join.Related()}
}

var errNoObject = errors.New("the join field cannot be added: the source is not a JSON object")

// relate adds the join field to a document, and the routing that it had on the source, where a parent was routed by its own id. A child
// without a parent gets no join field, because it has no relation on the source either. relate must be called while the document still has
// the type and id of the source.
func (j *joiner) relate(ctx context.Context, rec *lucene.Record, d *doc.Document) error {
	if j == nil || !j.related[string(d.Type)] {
		return nil
	}
	if d.Routing == nil {
		d.Routing = d.ID
	}
	parentType, isChild := j.join.Parents[string(d.Type)]
	var parent []byte
	if isChild {
		var err error
		if parent, err = parentOf(ctx, rec, parentType); err != nil || parent == nil {
			return err
		}
	}
	open := bytes.IndexByte(d.Source, '{')
	if open < 0 || len(bytes.TrimSpace(doc.WithoutMark(d.Source[:open]))) > 0 {
		return errNoObject
	}
	out := append(j.out[:0], d.Source[:open+1]...)
	out = append(doc.AppendString(out, []byte(j.join.Field)), ':')
	if isChild {
		out = append(doc.AppendString(append(out, `{"name":`...), d.Type), `,"parent":`...)
		out = append(doc.AppendString(out, slices.Concat([]byte(parentType), []byte{'#'}, parent)), '}')
	} else {
		out = doc.AppendString(out, d.Type)
	}
	if !doc.EmptyObject(d.Source[open:]) {
		out = append(out, ',')
	}
	j.out = append(out, d.Source[open+1:]...)
	d.Source = j.out
	return nil
}

// parentOf returns the id of a document's parent; nil if it has none. Elasticsearch 1 and 2 store _parent as type#id; since version 5 the
// id is only in the doc values _parent#<type of the parents>.
func parentOf(ctx context.Context, rec *lucene.Record, parentType string) ([]byte, error) {
	if rec.Parent != nil {
		if _, id, found := bytes.Cut(rec.Parent, []byte("#")); found {
			return id, nil
		}
		return rec.Parent, nil
	}
	if rec.Values == nil {
		return nil, nil
	}
	column, err := rec.Values.Column(ctx, "_parent#"+parentType)
	if err != nil || column == nil {
		return nil, err
	}
	if n, err := column.Advance(ctx, rec.DocID); err != nil || n == 0 {
		return nil, err
	}
	return column.Bytes(ctx, 0)
}
