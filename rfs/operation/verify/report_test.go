package verify

import (
	"slices"
	"strings"
	"testing"
)

// TestIndex_FailedDocuments covers documents of the source that did not arrive: an index without them is never equal.
func TestIndex_FailedDocuments(t *testing.T) {
	for _, c := range []struct {
		name   string
		failed []int // in the account of failures
		unsent []int // the migration could not send them
		gone   []int // not on the target
		change map[int]string
		want   State
	}{
		{name: "all were rejected", failed: []int{0, 1, 2, 3, 4, 5}, gone: []int{0, 1, 2, 3, 4, 5}, want: FailedDocuments},
		{name: "one was rejected", failed: []int{3}, gone: []int{3}, want: FailedDocuments},
		{name: "one has no source", unsent: []int{3}, gone: []int{3}, want: FailedDocuments},
		{name: "the rejected one arrived later", failed: []int{3}, want: Equal},
		{name: "another is missing", failed: []int{3}, gone: []int{3, 4}, want: Different},
		{name: "another was changed since", failed: []int{3}, gone: []int{3}, change: map[int]string{4: `{"n":9}`}, want: FailedDocuments},
	} {
		t.Run(c.name, func(t *testing.T) {
			source, held, failed := records(6), records(6), &Failed{}
			for _, i := range c.failed {
				failed.Add("logs", source[i].id)
			}
			for _, i := range c.unsent {
				source[i].fate = Unsent
			}
			for i, text := range c.change {
				held[i].source, held[i].since = text, true
			}
			there := held[:0]
			for i, r := range held {
				if !slices.Contains(c.gone, i) {
					there = append(there, r)
				}
			}
			x := compared(t, Options{Failed: failed}, units("s", "logs", 1, source), Content{Documents: 6, Units: units("t", "logs", 1, there)})
			if x.State != c.want || x.SourceDocuments != 6 || x.TargetDocuments != int64(len(there)) {
				t.Errorf("%s, %d documents in the source, %d on the target; want %s, 6, %d", x.State, x.SourceDocuments, x.TargetDocuments, c.want, len(there))
			}
		})
	}
}

// TestReport_LaterWrites covers documents that were written to the target after the migration: most of an index is worth a warning,
// and with Strict each of them is a difference.
func TestReport_LaterWrites(t *testing.T) {
	for _, c := range []struct {
		name           string
		changed, added int // since the migration, of 20 documents
		warns          bool
		loose, strict  State
	}{
		{name: "none", loose: Equal, strict: Equal},
		{name: "one", changed: 1, loose: Since, strict: Different},
		{name: "half", changed: 10, warns: true, loose: Since, strict: Different},
		{name: "all", changed: 20, warns: true, loose: Since, strict: Different},
		{name: "as many were added", added: 20, loose: Since, strict: Different},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := records(20 + c.added)
			for i := range c.changed {
				target[i] = record{id: target[i].id, source: `{"n":"CORRUPTED"}`, since: true}
			}
			for i := range c.added {
				target[20+i].since = true
			}
			x := compared(t, Options{}, units("s", "logs", 2, records(20)), Content{Documents: 20, Units: units("t", "logs", 1, target)})
			for _, strict := range []bool{false, true} {
				r := &Report{Strict: strict, Indices: []*Index{x}}
				r.Conclude()
				if want := map[bool]State{false: c.loose, true: c.strict}[strict]; r.State != want || x.State != want {
					t.Errorf("strict %v: %s, the index %s, want %s", strict, r.State, x.State, want)
				}
				if warns := strings.Contains(strings.Join(r.Warnings, "\n"), "logs"); warns != c.warns {
					t.Errorf("strict %v: warnings %q", strict, r.Warnings)
				}
			}
		})
	}
}
