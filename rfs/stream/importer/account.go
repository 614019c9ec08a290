package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// endKind and endID identify the record of the end of an import.
const (
	endKind = "import"
	endID   = "import:end"
)

// maxProblems is the maximum number of reported problems.
const maxProblems = 100

// Problem is a part of a file that was given up.
type Problem struct {
	File   string `json:"file"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Reason string `json:"reason"`
}

// Totals are the account of an import: the sum over its items.
type Totals struct {
	Counts
	Files     int   `json:"files"`
	FileBytes int64 `json:"file_bytes"`   // bytes of the files, as stored, that are done or given up
	Windows   int64 `json:"windows"`      // items that are done or given up
	GivenUp   int64 `json:"given_up"`     // items that are given up
	Size      int64 `json:"source_bytes"` // bytes of all files, as stored
}

// end is the body of the record that an import leaves when every item has ended and the chains of all parts are whole.
type end struct {
	// Arrival is the comparison with the target at that time; nil if nothing was compared.
	Arrival *progress.Arrival `json:"arrival,omitempty"`
}

// Account is the progress of an import, computed from its store alone.
type Account struct {
	Status
	Began   bool // some items exist
	Listed  bool // every item exists
	Windows []Window
	ended   bool       // it was complete once
	sent    cms.Counts // sum of the items
}

// Window is an item of an import.
type Window struct {
	cms.Item
	ID   cms.ItemID
	Task Task
}

// Done returns the number of stored bytes of its file that the item has completed.
func (w Window) Done() int64 {
	switch {
	case w.Task.Compression != plain: // the position in a compressed file is known only at its end
		if w.Open() || w.Successors != "" {
			return 0
		}
		return w.Task.Size
	case w.FailedItem():
		return w.Task.To - w.ID.Cursor
	}
	return max(min(w.Begin(), w.Task.To)-w.ID.Cursor, 0)
}

// itemsOf returns a Coordinator of the items of the import of a session; nil if the session imports no files.
func itemsOf(ctx context.Context, c *cms.Coordinator) (*cms.Coordinator, error) {
	if c.Kind() == Kind {
		return c, nil
	}
	settings, err := session.IdentityOf(c).Settings(ctx)
	if errors.Is(err, cms.ErrNotFound) || err == nil && settings[taskKey] != Kind {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.OfKind(ctx, Kind)
}

// Stored is the data of a store about the import of a session.
type Stored struct {
	End    *cms.Record // nil before the import is complete
	Seeded bool        // every item exists
	Items  []cms.Item
}

// Busy returns a *cms.NoneAvailable with the holder of an unexpired lease in the import of a session, nil if it has none.
func Busy(ctx context.Context, c *cms.Coordinator) error {
	c, err := itemsOf(ctx, c)
	if err != nil || c == nil {
		return err
	}
	return session.HeldOf(c).Busy(ctx)
}

// Read reads the data about the import of a session; the zero value if it imports no files.
func Read(ctx context.Context, c *cms.Coordinator) (s Stored, err error) {
	if c, err = itemsOf(ctx, c); err != nil || c == nil {
		return s, err
	}
	r, err := c.Store().Record(ctx, endID)
	switch {
	case err == nil:
		s.End = &r
	case !errors.Is(err, cms.ErrNotFound):
		return s, fmt.Errorf("end of the import: %w", err)
	}
	if s.Seeded, err = c.Seeded(ctx); err != nil {
		return s, err
	}
	for it, err := range c.Items(ctx) {
		if err != nil {
			return s, err
		}
		s.Items = append(s.Items, it)
	}
	return s, nil
}

// Account returns the Account, with the items in order of file and byte.
func (s Stored) Account() (Account, error) {
	a := Account{Began: s.Seeded || len(s.Items) > 0, Listed: s.Seeded, ended: s.End != nil, Status: Status{Complete: s.End != nil}}
	if a.ended {
		var e end
		if err := s.End.Decode(&e); err != nil {
			return a, fmt.Errorf("end of the import: %w", err)
		}
		a.Arrival = e.Arrival
	}
	for _, it := range s.Items {
		w := Window{Item: it}
		var err error
		if w.ID, err = it.Range(); err != nil {
			return a, err
		}
		if w.Task, err = decodeTask(it.Task); err != nil {
			return a, fmt.Errorf("%s: %w", cms.ItemName(it.ID), err)
		}
		a.Windows = append(a.Windows, w)
	}
	slices.SortFunc(a.Windows, func(x, y Window) int {
		return cmp.Or(cmp.Compare(x.Task.Number, y.Task.Number), cmp.Compare(x.ID.Cursor, y.ID.Cursor))
	})
	for i, w := range a.Windows {
		if i == 0 || w.Task.Number != a.Windows[i-1].Task.Number {
			a.Files, a.Size = a.Files+1, a.Size+w.Task.Size
		}
		a.take(w)
	}
	a.Counts = countsOf(a.sent)
	return a, nil
}

// readAccount returns the Account of the import of a session from the store.
func readAccount(ctx context.Context, c *cms.Coordinator) (Account, error) {
	s, err := Read(ctx, c)
	if err != nil {
		return Account{}, err
	}
	return s.Account()
}

func (a *Account) take(w Window) {
	a.sent = a.sent.Add(w.Item.Counts)
	a.FileBytes += w.Done()
	if w.Open() { // one may have been opened again
		a.Complete = false
		return
	}
	a.Totals.Windows++
	if !w.FailedItem() {
		return
	}
	a.GivenUp++
	if len(a.Problems) < maxProblems {
		a.Problems = append(a.Problems, Problem{File: w.Task.File, From: w.ID.Cursor, To: w.Task.To, Reason: w.Failure})
	}
}

// lacks reports whether the target lacked documents when the import was complete.
func (a *Account) lacks() bool { return a.Arrival != nil && a.Arrival.Problem != "" }
