package cms

import (
	"fmt"

	"github.com/rfsd/rfsd/rfs/fault"
)

// An item that ends its workers must not do so for ever, and an item whose workers are ended by
// something else must not be given up. A death has no witness, so the blame is settled in steps:
//
//  1. Attempts counts acquisitions in a row that ended without progress and without a cause. Progress
//     and releases with a cause outside the item take them back.
//  2. After MaxAttempts of them the item is leased to work on alone: nothing else runs in the process,
//     and before each part of the work AloneAt records its first ordinal.
//  3. A holder that dies alone leaves AloneAt behind, which becomes AloneDied. When the next one dies
//     alone at the same ordinal, the lease that follows is one to mark the item FAILED.
//
// Whatever kills at random does not kill twice at the same ordinal; a document that exhausts the
// memory does.

// attempt counts an acquisition and draws the conclusion from the one before.
func attempt(it Item, limit int) Item {
	it.Attempts++
	if limit > 0 {
		it.Attempts = min(it.Attempts, limit+1)
	}
	if it.AloneAt != it.AloneDied && it.AloneAt != 0 {
		it.AloneDied, it.AloneAt = it.AloneAt, 0
	}
	return it
}

// acquitted is the item without anything that speaks against it.
func acquitted(it Item) Item {
	it.Attempts, it.Reached, it.AloneAt, it.AloneDied = 0, 0, 0, 0
	return it
}

// condemned reports the ordinal at which two holders in a row ended that worked on nothing else.
func (it Item) condemned() (ordinal int64, ok bool) {
	return it.AloneAt - 1, it.AloneAt != 0 && it.AloneAt == it.AloneDied
}

// Alone reports whether nothing else may run in the process while this lease is worked on, and Stand has
// to be called before each part of the work.
func (l *Lease) Alone() bool { return l.c.cfg.MaxAttempts > 0 && l.Item.Attempts > l.c.cfg.MaxAttempts }

// Suspect returns the ordinal at which the last holder died that worked on nothing else; ok is false
// when there was none.
func (l *Lease) Suspect() (ordinal int64, ok bool) {
	return l.Item.AloneDied - 1, l.Item.AloneDied != 0
}

// Condemned returns an error that names the ordinal at which the last two holders died, though both worked on
// nothing else, and nil for any other item. What lies before the ordinal is not to blame.
func (l *Lease) Condemned() *Deadly {
	if at, ok := l.Item.condemned(); ok {
		return &Deadly{Ordinal: at, Times: l.Item.Attempts + 1}
	}
	return nil
}

// Deadly is why an item is FAILED whose workers died without a known cause.
type Deadly struct {
	Ordinal int64 // of the document, or of the first of the part, at which they died
	Times   int   // at least so many died
}

// Error names the ordinal and what can be done.
func (e *Deadly) Error() string {
	return fmt.Sprintf("at least %d workers in a row ended without a known cause while they worked on it, the last two on nothing else and both at ordinal %d: leave the document out, or give workers more memory, and run again",
		e.Times, e.Ordinal)
}

// Is makes every Deadly a fault.ErrUnsupported: another worker would end the same way.
func (e *Deadly) Is(target error) bool { return target == fault.ErrUnsupported }
