package progress

import (
	"slices"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Ahead is the progress of an item in the process that works on it, which is ahead of the store.
type Ahead struct {
	Watermark int64      // every ordinal below it is done
	Counts    cms.Counts // of all documents that arrived, from the cursor of the item
}

// With returns the reading with the given progress of its open items, by id. Its sums, rows and items agree.
func (r *Reading) With(ahead map[string]Ahead) *Reading {
	is := *r
	is.Items = slices.Clone(r.Items)
	for i, it := range is.Items {
		a, ok := ahead[it.ID]
		if !ok || !it.Open() {
			continue
		}
		c := &is.Items[i].Counts
		is.Items[i].Watermark = max(it.Watermark, a.Watermark)
		c.Indexed, c.Failed, c.Filtered, c.Kept = max(c.Indexed, a.Counts.Indexed), max(c.Failed, a.Counts.Failed), max(c.Filtered, a.Counts.Filtered), max(c.Kept, a.Counts.Kept)
		c.Bytes = max(c.Bytes, a.Counts.Bytes)
	}
	return &is
}

// Of returns the view with the counts of m, which was read or derived at the same time.
func (v View) Of(m *Migration) View {
	w := m.Totals.Work()
	v.Documents, v.Failed = w.Documents, w.Failed
	if !m.Complete && m.Totals.Bytes > 0 {
		v.Share = max(v.Share, min(float64(w.Bytes)/float64(m.Totals.Bytes), 1)) // the process knows its own work before the store does
	}
	return v
}
