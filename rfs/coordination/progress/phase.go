package progress

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// phaseNames are the phases in their order. phaseName maps the store's names of the last two.
var phaseNames = [...]string{"snapshot", "metadata", "indices", "documents"}

func phaseName(stored string) string {
	switch stored {
	case "index":
		return "indices"
	case "docs":
		return "documents"
	}
	return stored
}

// phaseBody holds the fields of a phase record's body that are read; each may be absent.
type phaseBody struct {
	Name  string `json:"name,omitempty"` // of the snapshot that the session creates
	Done  int64  `json:"done,omitempty"`
	Total int64  `json:"total,omitempty"`
	Unit  string `json:"unit,omitempty"`
}

func (r *reader) phase(rec cms.Record) {
	name := phaseName(strings.TrimPrefix(rec.ID, "phase:"))
	p := Phase{Name: name, State: rec.State, Attempts: rec.Attempts, Error: rec.Error}
	if rec.Holder != "" && rec.Expire > r.now.UnixMilli() {
		p.Holder = rec.Holder
	}
	var b phaseBody
	if len(rec.Body) > 0 && json.Unmarshal(rec.Body, &b) == nil {
		p.Done, p.Total, p.Unit = b.Done, b.Total, b.Unit
		if name == "snapshot" {
			r.m.Snapshot = cmp.Or(r.m.Snapshot, b.Name)
		}
	}
	p.Started = instant(rec.CreatedAt)
	if p.State == Completed || p.State == Failed || p.State == Skipped {
		p.Finished = instant(rec.UpdatedAt)
	}
	if p.State == Failed {
		r.failure(p.Error, "phase "+name)
	}
	r.m.Phases = append(r.m.Phases, p)
}

func instant(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	return new(Time(ms))
}

// latest is the last millisecond of the year 9999, after which RFC 3339 has no time.
const latest = 253_402_300_799_999

// Time converts a store's epoch ms. Invalid values become the closest time that can be printed.
func Time(ms int64) time.Time { return time.UnixMilli(min(max(ms, 0), latest)).UTC() }

// phases sorts the phases, adds those without a record, and sets their progress from items and index entries.
func (r *reader) phases() {
	found := map[string]Phase{}
	latest := -1 // index of the last phase with a record
	for _, p := range r.m.Phases {
		found[p.Name] = p
		latest = max(latest, slices.Index(phaseNames[:], p.Name))
	}
	t := r.m.Totals
	if t.Items > 0 {
		latest = len(phaseNames) - 1
	}
	r.m.Phases = make([]Phase, 0, len(phaseNames))
	for i, name := range phaseNames {
		p, ok := found[name]
		if !ok {
			p = Phase{Name: name, State: NotStarted}
			if i < latest { // a later phase has started, so this one was skipped
				p.State = Skipped
			}
		}
		switch name {
		case "indices":
			if r.entries > 0 {
				p.Done, p.Total, p.Unit = r.created, r.entries, "indices"
			}
		case "documents":
			if t.Items > 0 {
				p.Done, p.Total, p.Unit = t.Items-t.ItemsOpen, t.Items, "items"
				if !ok {
					p.State = InProgress
				}
			}
			r.m.Complete = (p.State == Completed || p.State == Failed) && t.ItemsOpen == 0
		}
		r.m.Phases = append(r.m.Phases, p)
	}
}
