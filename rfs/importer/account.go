package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/primitive"
)

// Account is how far an import is, from nothing but its store, and what is to be seen of the windows that are not in
// its totals yet.
type Account struct {
	Status
	Began   bool // a leader has begun to cut windows
	Listed  bool // every window is cut
	Windows []Window
}

// Window is one that is due, in work, or ended and not counted yet.
type Window struct {
	ID       string // its number
	Task     Task
	State    string // outstanding, done, failed or cancelled
	Holder   string
	Expire   time.Time // of the claim, by the store's clock; zero when it is free
	Attempts int
	Offset   int64 // everything before it is durably done; of a compressed file, in unpacked bytes
	Counts   Counts
	Error    string
}

// Read gives the account of the import in a store.
func Read(ctx context.Context, store primitive.Store) (Account, error) {
	book := notebook{store: store}
	s, err := book.load(ctx)
	if err != nil || s == nil {
		return Account{}, err
	}
	a := Account{Began: true, Listed: s.Listed, Status: Status{Totals: s.Totals, Complete: s.complete(), Problems: s.Problems}}
	all, err := desk(store).List(ctx)
	if err != nil {
		return a, err
	}
	for _, x := range all {
		w, err := windowOf(x)
		if err != nil {
			return a, err
		}
		if n, ok := number(x.ID); ok && !s.counted(n) {
			a.Windows = append(a.Windows, w)
		}
	}
	return a, nil
}

// desk is the set of partitions of an import, for who works on none of them.
func desk(store primitive.Store) *primitive.Partitions {
	return &primitive.Partitions{Locks: &primitive.Locks{Store: store, Clock: cms.SystemClock()}, Prefix: prefix}
}

func windowOf(x primitive.Status) (Window, error) {
	w := Window{ID: x.ID, State: x.State, Holder: x.Holder, Expire: x.Expire, Attempts: x.Attempts, Error: x.Error}
	var err error
	if w.Task, err = decodeTask(x.Task); err != nil {
		return w, fmt.Errorf("partition %s: %w", x.ID, err)
	}
	p, err := decodeProgress(x.Progress)
	if err != nil {
		return w, fmt.Errorf("partition %s: %w", x.ID, err)
	}
	w.Offset, w.Counts = p.Offset, p.Counts
	return w, nil
}

// Done is how many bytes of its file, as they are there, the window has behind it.
func (w Window) Done() int64 {
	switch {
	case w.State != primitive.Outstanding:
		return w.Task.To - w.Task.From
	case w.Task.Compression != plain: // how far a packed file is, only its end tells
		return 0
	}
	return max(min(w.Offset, w.Task.To)-w.Task.From, 0)
}

// Free gives back the windows of a process that is dead for certain, whose holders' names begin with its token. Unless
// blamed, its death was no attempt.
func Free(ctx context.Context, store primitive.Store, token string, blamed bool) error {
	parts := desk(store)
	all, err := parts.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, x := range all {
		if x.State != primitive.Outstanding || !strings.HasPrefix(x.Holder, token+".") {
			continue
		}
		p, err := decodeProgress(x.Progress)
		if err == nil {
			if !blamed {
				p.Attempt = x.Attempts
			}
			err = parts.Free(ctx, x, p.encode())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Over says why a holder has a window no more, by the store; "" when it has it.
func Over(ctx context.Context, store primitive.Store, window, holder string) (string, error) {
	x, err := desk(store).Get(ctx, window)
	if errors.Is(err, cms.ErrNotFound) {
		return "the window has ended", nil
	}
	if err != nil {
		return "", err
	}
	now, _, err := store.Now(ctx)
	switch {
	case err != nil:
		return "", err
	case x.State != primitive.Outstanding || x.Holder != holder || x.Expire.IsZero():
		return "the window is not its own any more", nil
	case now.After(x.Expire):
		return "it ended at " + x.Expire.UTC().Format(time.RFC3339), nil
	}
	return "", nil
}
