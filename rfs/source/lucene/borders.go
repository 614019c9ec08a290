package lucene

import (
	"cmp"
	"context"
	"sort"
)

// Borders returns ordinals that divide the commit into at most so many parts, of about equal length of stored fields: each is
// the first one of a chunk, none is 0, and they grow. It reads the index of the segments in which borders lie, no documents.
func (c *Commit) Borders(ctx context.Context, parts int) ([]int64, error) {
	var all int64
	sizes := make([]int64, len(c.Segments))
	for i, s := range c.Segments {
		if s.LiveCount == 0 {
			continue
		}
		fdt, err := s.files.core(".fdt")
		if err != nil {
			return nil, err
		}
		sizes[i] = fdt.size
		all += fdt.size
	}
	var borders []int64
	var before int64 // length of earlier segments
	part := 1
	for i, s := range c.Segments {
		var stored *storedFields
		for ; part < parts; part++ {
			at := all/int64(parts)*int64(part) - before
			if at >= sizes[i] {
				break
			}
			if stored == nil {
				var err error
				if stored, err = openStored(ctx, s); err != nil {
					return nil, err
				}
			}
			doc, err := stored.index.chunkFrom(ctx, at)
			if err != nil {
				return nil, err
			}
			if border := s.Base + int64(doc); border < c.MaxOrdinal && border > 0 && (len(borders) == 0 || border > borders[len(borders)-1]) {
				borders = append(borders, border)
			}
		}
		before += sizes[i]
	}
	return borders, nil
}

// chunkFrom returns the first document of the first chunk that starts at a byte or behind it; behind the last chunk, the
// number of documents.
func (x *chunkIndex) chunkFrom(ctx context.Context, at int64) (doc int32, err error) {
	k := sort.Search(x.chunks(), func(k int) bool {
		_, pointer, failed := x.entry(ctx, k)
		err = cmp.Or(err, failed)
		return pointer >= at
	})
	if err != nil {
		return 0, err
	}
	doc, _, err = x.entry(ctx, k)
	return doc, err
}
