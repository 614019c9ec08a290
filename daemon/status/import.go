package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/importer"
	"github.com/rfsd/rfsd/rfs/progress"
)

// ImportPhase is the name of the one phase of an import.
const ImportPhase = "import"

// ReadImport reads a session that imports files from its store. Its items are windows of files.
func ReadImport(ctx context.Context, store *cms.Coordinator) (*progress.Migration, []Item, error) {
	m, err := headOf(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	a, err := importer.Read(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	m.Complete, m.Seeded, m.Failures = a.Complete, a.Listed, givenUp(a.Problems)
	m.Totals = progress.Counts{
		Items: int64(len(a.Windows)), ItemsOpen: int64(len(a.Windows)) - a.Totals.Windows, ItemsBad: a.GivenUp, Indexed: a.Indexed, Failed: a.Failed, Filtered: a.Filtered, Kept: a.Kept,
		Bytes: a.Size, BytesDone: a.FileBytes, SourceBytes: a.Counts.Bytes,
	}
	items := make([]Item, 0, len(a.Windows))
	for _, w := range a.Windows {
		x := windowItem(w, m.ReadAt)
		items = append(items, x)
		countLease(&m.Totals, x.State)
	}
	inOrder(items)
	m.Phases = []progress.Phase{importPhase(a)}
	return m, items, nil
}

// headOf returns the clock and the orders of a session whose items are not shards.
func headOf(ctx context.Context, store *cms.Coordinator) (*progress.Migration, error) {
	now, _, err := store.Now(ctx)
	if err != nil {
		return nil, err
	}
	intent, err := store.Intent(ctx)
	if err != nil {
		return nil, err
	}
	return &progress.Migration{
		ReadAt: now.UTC(), Intent: progress.Intent{State: strings.ToLower(string(intent.State)), Workers: intent.Workers},
		Indices: []progress.Index{}, Failures: []progress.Failure{},
	}, nil
}

// countLease adds an item that is leased or whose lease is over.
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
	x, _ := itemOf(w.Item, now) // its id was read before
	x.Index, x.Shard = w.Task.File, w.Task.Number
	return x
}
