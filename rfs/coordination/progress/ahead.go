package progress

import (
	"slices"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Ahead is the progress of an item that the process working on it knows before the store does.
type Ahead struct {
	Watermark int64      // every ordinal below it is done
	Counts    cms.Counts // of all that arrived, from the cursor of the item
}

// With returns a reading whose open items are as far as their workers know, by id. Sums, rows and items of it agree.
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

// Of returns the view with the numbers of a session that was read or derived at the same moment.
func (v View) Of(m *Migration) View {
	w := m.Totals.Work()
	v.Documents, v.Failed = w.Documents, w.Failed
	if !m.Complete && m.Totals.Bytes > 0 {
		v.Share = max(v.Share, min(float64(w.Bytes)/float64(m.Totals.Bytes), 1)) // the process knows its own before the store does
	}
	return v
}
