package status

import (
	"context"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/primitive"
	"github.com/rfsd/rfsd/rfs/importer"
	"github.com/rfsd/rfsd/rfs/progress"
)

// ImportPhase is the name of the one phase of an import.
const ImportPhase = "import"

// ReadImport reads a session that imports files from its store. Its items are windows of files.
func ReadImport(ctx context.Context, store *cms.Coordinator) (*progress.Migration, []Item, error) {
	now, _, err := store.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	intent, err := store.Intent(ctx)
	if err != nil {
		return nil, nil, err
	}
	a, err := importer.Read(ctx, store.Store())
	if err != nil {
		return nil, nil, err
	}
	m := &progress.Migration{
		ReadAt: now.UTC(), Intent: progress.Intent{State: strings.ToLower(string(intent.State)), Workers: intent.Workers}, Complete: a.Complete, Seeded: a.Listed,
		Totals: progress.Counts{
			Items: a.Totals.Windows, ItemsBad: a.GivenUp, Indexed: a.Indexed, Failed: a.Failed, Filtered: a.Filtered, Kept: a.Kept, Bytes: a.Size, BytesDone: a.FileBytes, SourceBytes: a.Counts.Bytes,
		},
		Indices: []progress.Index{}, Failures: givenUp(a.Problems),
	}
	items := make([]Item, 0, len(a.Windows))
	for _, w := range a.Windows {
		x := windowItem(w, m.ReadAt.UnixMilli())
		items = append(items, x)
		t := &m.Totals
		t.Items, t.BytesDone = t.Items+1, t.BytesDone+w.Done()
		t.Indexed, t.Failed, t.Filtered, t.Kept = t.Indexed+w.Counts.Indexed, t.Failed+w.Counts.Failed, t.Filtered+w.Counts.Filtered, t.Kept+w.Counts.Kept
		t.SourceBytes += w.Counts.Bytes
		if w.State == primitive.Outstanding {
			t.ItemsOpen++
		}
		if x.State == Leased {
			t.Leased++
		}
	}
	inOrder(items)
	m.Phases = []progress.Phase{importPhase(a)}
	return m, items, nil
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

// windowItem returns a window as an item: its file is the index, its first byte the cursor.
func windowItem(w importer.Window, now int64) Item {
	x := Item{
		ID: w.ID, Index: w.Task.File, Shard: w.Task.Number, Cursor: w.Task.From, Holder: w.Holder, Attempts: max(w.Attempts, 0), Watermark: w.Offset,
		Failure: w.Error,
		Sums:    Sums{Indexed: w.Counts.Indexed, Failed: w.Counts.Failed, Filtered: w.Counts.Filtered, Kept: w.Counts.Kept, Bytes: w.Counts.Bytes},
	}
	if !w.Expire.IsZero() && w.State == primitive.Outstanding && w.Holder != "" {
		t := w.Expire.UTC()
		x.Expiry = &t
	}
	switch {
	case w.State == primitive.Finished:
		x.State = Done
	case w.State != primitive.Outstanding:
		x.State = Failed
	case x.Expiry == nil:
		x.State = Open
	case w.Expire.UnixMilli() >= now:
		x.State = Leased
	default:
		x.State = Expired
	}
	return x
}
