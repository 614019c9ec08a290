package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/primitive"
	"github.com/rfsd/rfsd/rfs/fault"
)

// stateID and stateKind name the one record that says how far the import is.
const (
	stateKind = "import"
	stateID   = "import:state"
)

// Problem is a window that was given up.
type Problem struct {
	File   string `json:"file"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Reason string `json:"reason"`
}

// Totals are the account of an import; they outlive the partitions.
type Totals struct {
	Counts
	Files     int   `json:"files"`        // listed so far
	FileBytes int64 `json:"file_bytes"`   // in windows that are done, as they are in the files
	Windows   int64 `json:"windows"`      // done or given up
	GivenUp   int64 `json:"given_up"`     // of these
	Size      int64 `json:"source_bytes"` // of all files, as they are
}

// maxProblems bounds the problems that are kept with their reasons.
const maxProblems = 1000

// state is the leader's notebook. It changes by versioned writes only, so that of two that take
// themselves for the leader one stops; and every window is in it before its partition is made.
type state struct {
	Version int    `json:"v"`
	Digest  string `json:"digest"` // of the names and sizes of all files

	// The cursor: windows are cut up to Offset of File; Listed: to the end.
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Listed bool   `json:"listed"`
	Next   int64  `json:"next"` // number of the next window

	Pending map[string]Task `json:"pending,omitempty"` // windows that are not in Totals, by number: what a partition that the store forgot is made again from
	Low     int64           `json:"low"`               // all windows below are in Totals
	Counted []int64         `json:"counted,omitempty"` // and these, ascending

	Totals   Totals    `json:"totals"`
	Problems []Problem `json:"problems,omitempty"`
}

// complete says whether every window is accounted for.
func (s *state) complete() bool { return s.Listed && s.Low == s.Next }

// counted says whether a window is in the totals. Its partition is to be removed, even one that a
// leader of old made again.
func (s *state) counted(n int64) bool {
	if n < s.Low {
		return true
	}
	_, found := slices.BinarySearch(s.Counted, n)
	return found
}

// count takes a partition that ended into the totals. It says whether it did.
func (s *state) count(x primitive.Status) (bool, error) {
	n, err := strconv.ParseInt(x.ID, 10, 64)
	if err != nil {
		return false, fmt.Errorf("partition %s: %w: %w", x.ID, err, fault.ErrCorrupt)
	}
	given := x.State == primitive.Failed || x.State == primitive.Cancelled
	if n >= s.Next || s.counted(n) || !given && x.State != primitive.Finished {
		return false, nil
	}
	p, err := decodeProgress(x.Progress)
	if err != nil {
		return false, fmt.Errorf("partition %s: %w", x.ID, err)
	}
	t, err := decodeTask(x.Task)
	if err != nil {
		return false, fmt.Errorf("partition %s: %w", x.ID, err)
	}
	s.Totals.add(p.Counts)
	s.Totals.Windows++
	s.Totals.FileBytes += t.To - t.From
	if given {
		s.Totals.GivenUp++
		if len(s.Problems) < maxProblems {
			s.Problems = append(s.Problems, Problem{File: t.File, From: t.From, To: t.To, Reason: reasonOf(x)})
		}
	}
	delete(s.Pending, x.ID)
	at, _ := slices.BinarySearch(s.Counted, n)
	s.Counted = slices.Insert(s.Counted, at, n)
	for len(s.Counted) > 0 && s.Counted[0] == s.Low {
		s.Low++
		s.Counted = s.Counted[1:]
	}
	return true, nil
}

func reasonOf(x primitive.Status) string {
	if x.State == primitive.Cancelled {
		return "cancelled"
	}
	return x.Error
}

// cut makes up to n more windows, of at most size bytes each where a file can be cut. It says
// whether the state changed.
func (s *state) cut(files []file, size int64, n int) bool {
	if s.Listed {
		return false
	}
	if s.Pending == nil {
		s.Pending = map[string]Task{}
	}
	first := s.Next
	at, found := slices.BinarySearchFunc(files, s.File, func(f file, name string) int {
		switch {
		case f.name < name:
			return -1
		case f.name > name:
			return 1
		}
		return 0
	})
	offset := s.Offset
	if !found {
		offset = 0
	}
	for ; at < len(files); at++ {
		f := files[at]
		if f.name != s.File {
			offset = 0
		}
		for offset < f.size {
			if s.Next-first >= int64(n) {
				return n > 0
			}
			if offset == 0 {
				s.Totals.Files++
			}
			to := f.size
			if f.packed == plain && to-offset > size+size/2 { // no tiny window at the end
				to = offset + size
			}
			s.Pending[partitionID(s.Next)] = Task{Version: taskVersion, Kind: kind, File: f.name, Number: s.Totals.Files - 1,
				Size: f.size, From: offset, To: to, Compression: f.packed}
			s.Next++
			offset = to
			s.File, s.Offset = f.name, to
		}
	}
	s.Listed = true
	return true
}

// notebook reads and writes the state.
type notebook struct {
	store  primitive.Store
	record cms.Record
}

// load reads the state; nil when the import has not begun.
func (b *notebook) load(ctx context.Context) (*state, error) {
	r, err := b.store.Record(ctx, stateID)
	if errors.Is(err, cms.ErrNotFound) {
		b.record = cms.Record{ID: stateID, Kind: stateKind}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state of the import: %w", err)
	}
	s := new(state)
	if err := json.Unmarshal(r.Body, s); err != nil {
		return nil, fmt.Errorf("state of the import: %w: %w", err, fault.ErrCorrupt)
	}
	if s.Version != taskVersion {
		return nil, fmt.Errorf("the import of this session was begun by another version of rfsd (its state is of version %d): %w", s.Version, fault.ErrConfig)
	}
	b.record = r
	return s, nil
}

// save writes the state over the one that was loaded or saved last. A fault.ErrLeaseLost when somebody
// else wrote in between, or when nobody knows whether this write arrived.
func (b *notebook) save(ctx context.Context, s *state) error {
	body, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("state of the import: %w", err)
	}
	now, _, err := b.store.Now(ctx)
	if err != nil {
		return fmt.Errorf("state of the import: %w", err)
	}
	r := b.record
	if r.CreatedAt == 0 {
		r.CreatedAt = now.UnixMilli()
	}
	r.UpdatedAt, r.Body, r.State = now.UnixMilli(), body, "running"
	if s.complete() {
		r.State = "completed"
	}
	rev, err := b.store.Put(ctx, r)
	switch {
	case errors.Is(err, cms.ErrConflict) || errors.Is(err, fault.ErrUnavailable):
		return fmt.Errorf("state of the import: %w: %w", err, errStale)
	case err != nil:
		return fmt.Errorf("state of the import: %w", err)
	}
	r.Revision = rev
	b.record = r
	return nil
}

// errStale says that the leader does not know the stored state any more: it has to begin anew.
var errStale = errors.New("the state may have changed")
