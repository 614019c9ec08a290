package status

import (
	"context"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// ImportPhase is the name of the one phase of an import.
const ImportPhase = "import"

// ReadImport reads the import of a session from its store.
func ReadImport(ctx context.Context, store *cms.Coordinator) (*progress.Migration, []Item, error) {
	r, err := ReadImportStore(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	return sumImport(r)
}

// ReadImportStore reads the contents of the store for a session that imports files.
func ReadImportStore(ctx context.Context, store *cms.Coordinator) (*progress.Reading, error) {
	r, err := progress.ReadHead(ctx, store)
	if err != nil {
		return nil, err
	}
	s, err := importer.Read(ctx, store)
	if err != nil {
		return nil, err
	}
	r.Kind, r.Seeded, r.Items = importer.Kind, s.Seeded, s.Items
	if s.End != nil {
		r.Phases = []cms.Record{*s.End}
	}
	return r, nil
}

// sumImport is Sum for an import. Its items are windows of files.
func sumImport(r *progress.Reading) (*progress.Migration, []Item, error) {
	s := importer.Stored{Seeded: r.Seeded, Items: r.Items}
	if len(r.Phases) > 0 {
		s.End = &r.Phases[0]
	}
	a, err := s.Account()
	if err != nil {
		return nil, nil, err
	}
	m := headOf(r)
	m.Complete, m.Seeded, m.Failures = a.Complete, a.Listed, givenUp(a.Problems)
	if is := a.Arrival; is != nil && is.Problem != "" {
		m.Failures = append(m.Failures, progress.Failure{Reason: is.Problem, Count: 1})
	}
	m.Totals = progress.Counts{
		Items: int64(len(a.Windows)), ItemsOpen: int64(len(a.Windows)) - a.Totals.Windows, ItemsBad: a.GivenUp, Indexed: a.Indexed, Failed: a.Failed, Filtered: a.Filtered, Kept: a.Kept,
		Retried: a.Retried, Resent: a.Resent, Replaced: a.Replaced,
		Bytes: a.Size, BytesDone: a.FileBytes, SourceBytes: a.Counts.Bytes,
	}
	m.Totals.Redrive(r.Redrives().TakeAll(m.Totals.Failed))
	items := make([]Item, 0, len(a.Windows))
	var activity progress.Activity
	for _, w := range a.Windows {
		activity.Add(w.Item, m.ReadAt)
		x := windowItem(w, m.ReadAt)
		items = append(items, x)
		countLease(&m.Totals, x.State)
	}
	activity.Set(m)
	inOrder(items)
	m.Phases = []progress.Phase{importPhase(a)}
	return m, items, nil
}

// headOf returns the clock and the orders of a session whose items are not shards.
func headOf(r *progress.Reading) *progress.Migration {
	return &progress.Migration{ReadAt: r.At.UTC(), Intent: r.Intent, Undone: r.Undone, Indices: []progress.Index{}, Failures: []progress.Failure{}}
}

// countLease counts an item that is leased or whose lease has expired.
func countLease(t *progress.Counts, state string) {
	switch state {
	case Leased:
		t.Leased++
	case Expired:
		t.Expired++
	}
}

func importPhase(a importer.Account) progress.Phase {
	p := progress.Phase{Name: ImportPhase, State: progress.NotStarted, Done: a.FileBytes, Total: a.Size, Unit: "bytes"}
	switch {
	case a.Complete && a.Arrival != nil && a.Arrival.Problem != "":
		p.State, p.Error = progress.Failed, a.Arrival.Problem
	case a.Complete && a.GivenUp > 0:
		p.State, p.Error = progress.Failed, fmt.Sprintf("%d windows were given up", a.GivenUp)
	case a.Complete:
		p.State = progress.Completed
	case a.Began:
		p.State = progress.InProgress
	}
	return p
}

// givenUp returns the abandoned windows, grouped by reason.
func givenUp(problems []importer.Problem) (all []progress.Failure) {
	at := map[string]int{}
	for _, p := range problems {
		i, ok := at[p.Reason]
		if !ok {
			i = len(all)
			at[p.Reason], all = i, append(all, progress.Failure{Reason: p.Reason})
		}
		f := &all[i]
		if f.Count++; len(f.Examples) < 5 {
			f.Examples = append(f.Examples, fmt.Sprintf("%s, bytes %d to %d", p.File, p.From, p.To))
		}
	}
	return all
}

// windowItem returns an item of an import: its file is the index, its first byte the cursor.
func windowItem(w importer.Window, now time.Time) Item {
	x, _ := itemOf(w.Item, now) // its id was decoded before
	x.Index, x.Shard = w.Task.File, w.Task.Number
	return x
}
