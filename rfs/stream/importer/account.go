package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// stateID and stateKind name the record of what an import is about.
const (
	stateKind = "import"
	stateID   = "import:state"

	stateRunning   = "running"
	stateCompleted = "completed"
)

// maxProblems bounds the problems that are reported with their reasons.
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
	Files     int   `json:"files"`        // that are imported
	FileBytes int64 `json:"file_bytes"`   // that are done or given up, as they are in the files
	Windows   int64 `json:"windows"`      // items that are done or given up
	GivenUp   int64 `json:"given_up"`     // of these
	Size      int64 `json:"source_bytes"` // of all files, as they are
}

// state holds the settings with which the session started.
type state struct {
	Version int    `json:"v"`
	Digest  string `json:"digest"` // of names and sizes of the files
	Files   int    `json:"files"`
	Size    int64  `json:"size"`
	Part    int64  `json:"part"` // bytes of a part of a file that can be cut
	// Arrival holds the counts of the target when the import was complete.
	Arrival *progress.Arrival `json:"arrival,omitempty"`
	done    bool
}

func decodeState(r cms.Record) (*state, error) {
	s := new(state)
	if err := r.Decode(s); err != nil {
		return nil, fmt.Errorf("state of the import: %w", err)
	}
	if s.Version != taskVersion {
		return nil, fmt.Errorf("the import of this session was started by another version of rfsd (its state is of version %d, this one knows %d): finish it with that version, or start it again with another --session-name: %w",
			s.Version, taskVersion, fault.ErrConfig)
	}
	s.done = r.State == stateCompleted
	return s, nil
}

// readRecord returns the record with which the session started; nil when it has not started.
func readRecord(ctx context.Context, store cms.Records) (*cms.Record, error) {
	r, err := store.Record(ctx, stateID)
	if errors.Is(err, cms.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state of the import: %w", err)
	}
	return &r, nil
}

// readState returns the settings with which the session started; nil when it has not started.
func readState(ctx context.Context, store cms.Records) (*state, error) {
	r, err := readRecord(ctx, store)
	if err != nil || r == nil {
		return nil, err
	}
	return decodeState(*r)
}

// Account is the progress of an import, computed from its store alone.
type Account struct {
	Status
	Began   bool // its files are listed
	Listed  bool // every item is made
	Windows []Window
	ended   bool // it was complete once
}

// Window is an item of an import.
type Window struct {
	cms.Item
	ID   cms.ItemID
	Task Task
}

// Done is the number of stored bytes of its file that the item has completed.
func (w Window) Done() int64 {
	switch {
	case w.Task.Compression != plain: // the position in a packed file is known only at its end
		if w.Open() || w.Successors != "" {
			return 0
		}
		return w.Task.Size
	case w.FailedItem():
		return w.Task.To - w.ID.Cursor
	}
	return max(min(w.Begin(), w.Task.To)-w.ID.Cursor, 0)
}

// windowsOf returns a Coordinator of the items of the import of a session.
func windowsOf(ctx context.Context, c *cms.Coordinator) (*cms.Coordinator, error) {
	if c.Kind() == Kind {
		return c, nil
	}
	return c.OfKind(ctx, Kind)
}

// Stored holds the records of the import of a session. Its sum is an Account.
type Stored struct {
	Began  *cms.Record // nil before it has started
	Seeded bool        // every item is made
	Items  []cms.Item
}

// Busy is cms.Coordinator.Busy of the items of the import of a session; nil when it has none.
func Busy(ctx context.Context, c *cms.Coordinator) error {
	s, err := readState(ctx, c.Store())
	if err != nil || s == nil {
		return err
	}
	if c, err = windowsOf(ctx, c); err != nil {
		return err
	}
	return session.Of(c).Busy(ctx)
}

// Read reads the import of a session.
func Read(ctx context.Context, c *cms.Coordinator) (Stored, error) {
	began, err := readRecord(ctx, c.Store())
	s := Stored{Began: began}
	if err != nil || began == nil {
		return s, err
	}
	if c, err = windowsOf(ctx, c); err != nil {
		return s, err
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

// Account returns the sum, the items in order of file and byte.
func (s Stored) Account() (Account, error) {
	if s.Began == nil {
		return Account{}, nil
	}
	began, err := decodeState(*s.Began)
	if err != nil {
		return Account{}, err
	}
	a := Account{Began: true, Listed: s.Seeded, ended: began.done, Status: Status{Totals: Totals{Files: began.Files, Size: began.Size}, Complete: began.done, Arrival: began.Arrival}}
	for _, it := range s.Items {
		w := Window{Item: it}
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
	for _, w := range a.Windows {
		a.take(w)
		a.Complete = a.Complete && !w.Open() // one may have been opened again
	}
	return a, nil
}

// readAccount returns the account of the import of a session as the store has it.
func readAccount(ctx context.Context, c *cms.Coordinator) (Account, error) {
	s, err := Read(ctx, c)
	if err != nil {
		return Account{}, err
	}
	return s.Account()
}

func (a *Account) take(w Window) {
	a.add(w.Counts)
	a.FileBytes += w.Done()
	if w.Open() {
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

// sent returns the sum of what became of the documents.
func (a *Account) sent() (sum cms.Counts) {
	for _, w := range a.Windows {
		sum = sum.Add(w.Counts)
	}
	return sum
}

// checkEnds returns an error when an item that ends a part was completed before the end of the part.
func (a *Account) checkEnds() error {
	for _, w := range a.Windows {
		if w.Task.Compression == plain && !w.Open() && !w.FailedItem() && w.Successors == "" && w.Watermark != w.Task.To {
			return fmt.Errorf("%s was completed at byte %d of %d: %w", cms.ItemName(w.Item.ID), w.Watermark, w.Task.To, fault.ErrCorrupt)
		}
	}
	return nil
}
