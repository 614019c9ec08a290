package cms

import (
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// An item that kills its workers must not do so forever, and an item whose workers die of something else must not be given up. No process
// observes the cause of a death, so it is narrowed down in steps:
//
//  1. Attempts counts consecutive acquisitions that ended without progress and without a cause. Progress
//     and releases with a cause outside the item take them back.
//  2. After MaxAttempts of them the item is leased to work on alone: nothing else runs in the process,
//     and AloneAt records the first ordinal of each part of the work before it starts.
//  3. A holder that dies alone leaves AloneAt behind, which becomes AloneDied. When deadlyTimes holders
//     in a row have died alone at the same ordinal, the next holder marks the item FAILED.
//
// A document that exhausts the memory kills at the same ordinal each time. Random kills may hit the same ordinal twice if it takes a large
// share of the time between two kills, but not five times. A holder that dies before it reads documents leaves no AloneAt: none of its work
// can be to blame.

// deadlyTimes is the number of successive holders that have to die alone at an ordinal before it is blamed.
const deadlyTimes = 5

// aloneAfter reports whether an item with this number of attempts is leased to a worker that holds nothing else.
func aloneAfter(attempts, limit int) bool { return limit > 0 && attempts > limit }

// attempt counts an acquisition, and the death of the previous holder if that left AloneAt behind.
func attempt(it Item, limit int) Item {
	it.Attempts++
	if limit > 0 {
		it.Attempts = min(it.Attempts, limit+1)
	}
	switch it.AloneAt {
	case 0:
	case it.AloneDied:
		it.AloneDeaths++
	default:
		it.AloneDied, it.AloneDeaths = it.AloneAt, 1
	}
	it.AloneAt = 0
	return it
}

// acquitted returns the item with its attempts and deaths reset.
func acquitted(it Item) Item {
	it.Attempts, it.Reached, it.AloneAt, it.AloneDied, it.AloneDeaths = 0, 0, 0, 0, 0
	return it
}

// condemned returns the ordinal at which deadlyTimes holders in a row died while they worked on nothing else; ok is false if fewer did.
func (it Item) condemned() (ordinal int64, ok bool) {
	return it.AloneDied - 1, it.AloneDied != 0 && it.AloneDeaths >= deadlyTimes
}

// Alone reports whether nothing else may run in the process during this lease. Then RecordPosition has to be called before each part of the
// work.
func (l *Lease) Alone() bool { return aloneAfter(l.Item.Attempts, l.c.cfg.MaxAttempts) }

// Suspect returns the ordinal at which the last holder that worked on nothing else died; ok is false when none did.
func (l *Lease) Suspect() (ordinal int64, ok bool) {
	return l.Item.AloneDied - 1, l.Item.AloneDied != 0
}

// Condemned returns an error that names the ordinal at which the last deadlyTimes holders died while they worked on nothing else, and nil
// for any other item. Documents before that ordinal are not to blame.
func (l *Lease) Condemned() *PoisonPill {
	if at, ok := l.Item.condemned(); ok {
		return &PoisonPill{Ordinal: at, Times: l.Item.Attempts - 1 + deadlyTimes}
	}
	return nil
}

// PoisonPill is the error of an item that is FAILED because its workers died without a known cause.
type PoisonPill struct {
	Ordinal int64 // of the document, or of the first of the part, at which they died
	Times   int   // a lower limit of the deaths
}

// Error names the ordinal and the remedies.
func (e *PoisonPill) Error() string {
	return fmt.Sprintf("at least %d workers in a row ended without a known cause while they worked on it, the last %d on nothing else and all at ordinal %d: leave the document out, or give workers more memory, and run again",
		e.Times, deadlyTimes, e.Ordinal)
}

// Is makes every PoisonPill a fault.ErrUnsupported: another worker would end the same way.
func (e *PoisonPill) Is(target error) bool { return target == fault.ErrUnsupported }
