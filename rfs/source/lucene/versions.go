package lucene

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// versionField is the column with the number that the source cluster gave a document last. Every root document has one
// since Elasticsearch 1.0; before, the number was a payload of the id.
const versionField = "_version"

// versions reads the numbers of a segment next to its stored fields.
type versions struct{ column *columnReader }

// openVersions finds the column of a segment. It reads only the metadata.
func openVersions(ctx context.Context, seg *Segment, infos *fieldInfos) (*versions, error) {
	if infos == nil {
		return nil, fmt.Errorf("%s: versions need the field infos, the commit was opened without Options.Values: %w", seg.Name, fault.ErrUnsupported)
	}
	f := infos.numeric(versionField)
	if f == nil {
		return nil, fmt.Errorf("%s: its documents have no versions in doc values; only overwrite and keep are possible: %w", seg.Name, fault.ErrUnsupported)
	}
	metas := columnMetas{seg: seg, fields: infos, only: []string{versionField}}
	c, err := metas.open(ctx, f)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, fmt.Errorf("%s: versions in doc values of format %q are not known: %w", seg.Name, f.attrs[attrFormat], fault.ErrUnsupported)
	}
	r, err := c.reader(int32(seg.MaxDoc))
	if err != nil {
		return nil, err
	}
	return &versions{r}, nil
}

// fill sets the version of a root document. The file is verified before the first: a damaged number would decide wrongly.
func (v *versions) fill(ctx context.Context, rec *Record) (err error) {
	if err = v.column.verify(ctx); err != nil {
		return err
	}
	rec.Version, err = v.column.number(ctx, rec.DocID)
	return err
}
