package plan

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// joinOf returns the join field that relates the united types of an index; nil if none is requested or no type has a parent.
func joinOf(x *snapshot.Index, req Request) (*metadata.Join, error) {
	if req.ParentJoin == "" {
		return nil, nil
	}
	join, err := metadata.NewJoin(req.ParentJoin, MetadataOf(x).Mappings)
	if join != nil && req.EmitType == EmitOn {
		return nil, fmt.Errorf("--parent-join unites mapping types, --emit-doc-type ON keeps them: leave one out: %w", fault.ErrConfig)
	}
	return join, err
}

// maxCompared is the maximum number of ids compared in an index, maxCollisions the maximum number named in a warning.
const (
	maxCompared   = 1 << 20
	maxCollisions = 20
)

// collisions finds related documents with the same type and id, which differ by their parents on the source.
type collisions struct {
	related map[string]bool // types with a parent
	seed    maphash.Seed
	seen    map[uint64]struct{}
	names   []string
	more    bool // the index has more ids than were compared
}

// newCollisions returns collisions for a join field; nil without one.
func newCollisions(join *metadata.Join) *collisions {
	if join == nil {
		return nil
	}
	return &collisions{related: join.Related(), seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
}

// add compares one more document, whose stored id is type#id.
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

// warnings returns warnings about the ids of an index.
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
