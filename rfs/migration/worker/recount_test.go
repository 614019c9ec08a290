package worker_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestMigration_RepeatedRun: a run that finds everything done says so, and counts what the target holds now; any other does not say so.
func TestMigration_RepeatedRun(t *testing.T) {
	w := newWorld(t)
	only := func(p ...string) func(*worker.Migration) { return func(m *worker.Migration) { m.Phases = p } }
	lost := func(sum *summary.Summary) (n int64) {
		for _, x := range sum.Indices {
			n += x.Lost()
		}
		return n
	}
	for i, c := range []struct {
		name       string
		with       func(*worker.Migration)
		before     func()
		doneBefore bool
		lost       int64
	}{
		{name: "the first run makes the indices only", with: only(phase.PhaseMetadata, phase.PhaseIndices)},
		{name: "the same again has nothing to do", with: only(phase.PhaseMetadata, phase.PhaseIndices), doneBefore: true},
		{name: "the documents"},
		{name: "the same again", doneBefore: true},
		{name: "documents were deleted since", doneBefore: true, lost: 3, before: func() { w.deletesSome(3) }},
		{name: "more were deleted than are left to be counted", doneBefore: true, lost: 13, before: func() { w.deletesSome(10) }},
	} {
		if c.before != nil {
			c.before()
		}
		w.with = c.with
		sum, err := w.run(t, i, &migrationtest.Life{})
		if err != nil || !sum.Complete {
			t.Fatalf("%s: %v", c.name, err)
		}
		if sum.DoneBefore != c.doneBefore || lost(sum) != c.lost {
			t.Errorf("%s: done before: %v, %d documents fewer, want %v and %d", c.name, sum.DoneBefore, lost(sum), c.doneBefore, c.lost)
		}
	}
}

// deletesSome has another client delete n documents of an index that has more than 20.
func (w *world) deletesSome(n int) {
	for _, docs := range w.docs {
		if len(docs) <= 20 {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(docs)) {
			if n > 0 && docs[id] != "" {
				docs[id] = ""
				n--
			}
		}
		return
	}
}
