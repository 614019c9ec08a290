package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// joinOf returns the join field of an index whose types are united for it; nil when it is not asked for, or no type has
// parents.
func joinOf(x *snapshot.Index, req Request) (*metadata.Join, error) {
	if req.ParentJoin == "" {
		return nil, nil
	}
	join, err := metadata.NewJoin(req.ParentJoin, metadataOf(x).Mappings)
	if join != nil && req.EmitType == EmitOn {
		return nil, fmt.Errorf("--parent-join unites mapping types, --emit-doc-type ON keeps them: leave one out: %w", fault.ErrConfig)
	}
	return join, err
}

// joiner adds the join field to documents. It keeps buffers and is used by one goroutine.
type joiner struct {
	join    *metadata.Join
	related map[string]bool
	out     []byte
}

// newJoiner returns the joiner of an index, nil without a join field.
func newJoiner(join *metadata.Join) *joiner {
	if join == nil {
		return nil
	}
	return &joiner{join: join, related: join.Related()}
}

var errNoObject = errors.New("the join field cannot be added: the source is no JSON object")

// relate adds to a document the join field and the routing that it had at the source, where a parent was routed by its own
// id. A child without a parent gets no join field: it has no relation at the source either. Type and id are still those of
// the source.
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

// parentOf returns the id of a document's parent, nil when it has none. Elasticsearch 1 and 2 store _parent as type#id;
// since 5 the id is only in the doc values _parent#<type of the parents>.
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

// maxCompared bounds the ids of an index that are compared, maxCollisions those that are named.
const (
	maxCompared   = 1 << 20
	maxCollisions = 20
)

// collisions finds related documents of the same type and id: at the source they differ by their parents.
type collisions struct {
	related map[string]bool // types
	seed    maphash.Seed
	seen    map[uint64]struct{}
	names   []string
	more    bool // not all were compared
}

// newCollisions returns nil without a join field.
func newCollisions(join *metadata.Join) *collisions {
	if join == nil {
		return nil
	}
	return &collisions{related: join.Related(), seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
}

// add compares one more document, of versions that store type#id.
func (c *collisions) add(typ []byte, rec *lucene.Record) {
	if c == nil || rec.IDKind != lucene.IDUID || !c.related[string(typ)] {
		return
	}
	sum := maphash.Bytes(c.seed, rec.ID)
	_, there := c.seen[sum]
	switch {
	case there && len(c.names) < maxCollisions:
		c.names = append(c.names, string(rec.ID))
	case !there && len(c.seen) < maxCompared:
		c.seen[sum] = struct{}{}
	case !there:
		c.more = true
	}
}

// warnings returns what the operator should know of the ids of an index.
func (c *collisions) warnings(index string) (all []string) {
	if c == nil {
		return nil
	}
	if len(c.names) > 0 {
		all = append(all, fmt.Sprintf("index %s: documents of one type and id under several parents: %s. On the target they stay apart only while they are on different shards: keep the number of shards",
			index, strings.Join(slices.Compact(slices.Sorted(slices.Values(c.names))), ", ")))
	}
	if c.more {
		all = append(all, fmt.Sprintf("index %s: only the first %d ids were compared", index, maxCompared))
	}
	return all
}
