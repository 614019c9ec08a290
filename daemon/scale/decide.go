// Package scale turns the work that is left into a number of machines and has a driver start and end them. It assigns no work: a
// machine that starts runs rfsd, whose workers take leases as all others do. Only the leader of a fleet calls it.
package scale

import (
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// Settings are the limits within which machines are started and ended. The configuration has checked them.
type Settings struct {
	Min, Max       int           // machines while there is work; Max has to be positive
	MachineWorkers int           // workers of one machine; at least 1
	WorkerBytes    int64         // of the repository, for which one worker is wanted; 0: one for each open item
	Cooldown       time.Duration // between two changes while there is work
	Budget         time.Duration // instance time in all, after which there are no machines; 0: no limit
	KeepMin        bool          // keep Min machines when the work is complete, rather than none
}

// Demand is the work that is left, as of the leader's last read of the store.
type Demand struct {
	Known    bool   // the work is planned and was read
	Complete bool   // every phase has ended and no item is open
	Held     string // why no work is done for now, such as a pause or the time between two rounds; "": it is
	Workers  *int   // wanted by an operator; nil: as the work needs
	Items    int64
	Bytes    int64 // of the repository
}

// State is what the scaler has done. It is a record of the coordination store, so that the next leader continues it.
type State struct {
	Leader   string `json:"leader"`
	At       int64  `json:"at"`       // epoch ms of the store's clock: last turn
	Machines int    `json:"machines"` // asked of the driver
	Changed  int64  `json:"changed"`  // epoch ms of the last change of Machines; 0: none
	Reason   string `json:"reason"`   // of Machines
	Running  int    `json:"running"`  // as the driver reported
	UsedMs   int64  `json:"used_ms"`  // instance time
	Error    string `json:"error,omitempty"`
}

// maxMachines limits what is read from the store.
const maxMachines = 1 << 14

// clamp returns st with all values within valid limits; records are not trusted.
func (st State) clamp(now int64) State {
	st.Machines, st.Running = min(max(st.Machines, 0), maxMachines), min(max(st.Running, 0), maxMachines)
	st.At, st.Changed = min(max(st.At, 0), now), max(st.Changed, 0)
	if st.Changed > now {
		st.Changed = 0
	}
	st.UsedMs = min(max(st.UsedMs, 0), 1<<60)
	return st
}

// next returns the state that follows at now, in epoch ms.
func (s Settings) next(st State, d Demand, loads []schedule.Load, now int64) State {
	st = st.clamp(now)
	if st.At > 0 {
		st.UsedMs += (now - st.At) * int64(max(st.Running, st.Machines))
	}
	st.At = now
	n, reason, urgent := s.wanted(st, d, loads)
	if n == st.Machines {
		st.Reason = reason
		return st
	}
	if wait := time.Duration(now-st.Changed) * time.Millisecond; st.Changed > 0 && wait < s.Cooldown && !urgent {
		st.Reason = fmt.Sprintf("%d are wanted (%s) after the cool-down", n, reason)
		return st
	}
	st.Machines, st.Changed, st.Reason = n, now, reason
	return st
}

// wanted returns the number of machines, its reason, and whether the change does not wait for the cool-down.
func (s Settings) wanted(st State, d Demand, loads []schedule.Load) (n int, reason string, urgent bool) {
	least := max(s.Min, 1)
	bounded := min(max(st.Machines, least), s.Max)
	switch {
	case s.Budget > 0 && st.UsedMs >= s.Budget.Milliseconds():
		return 0, fmt.Sprintf("the budget of %.1f instance hours is used up", s.Budget.Hours()), true
	case d.Complete && s.KeepMin:
		return s.Min, "the work is complete", true
	case d.Complete:
		return 0, "the work is complete", true
	case d.Held != "":
		return bounded, d.Held, st.Machines > s.Max
	case !d.Known:
		return bounded, "the work is not planned yet", st.Machines > s.Max
	case d.Workers != nil:
		return min(max(divide(int64(*d.Workers), int64(s.MachineWorkers)), least), s.Max), fmt.Sprintf("an operator wants %d workers", *d.Workers), st.Machines > s.Max
	}
	workers := d.Items
	if s.WorkerBytes > 0 {
		workers = min(workers, int64(divide(d.Bytes, s.WorkerBytes)))
	}
	most := min(max(divide(workers, int64(s.MachineWorkers)), least), s.Max)
	reason = fmt.Sprintf("%d items and %d bytes are left", d.Items, max(d.Bytes, 0))
	n = max(schedule.Next(st.Machines, most, loads), least)
	if n < most {
		busy, slow := schedule.Pressure(loads)
		reason += fmt.Sprintf(", %.0f %% of the requests are rejected or throttled", 100*max(busy, slow))
	}
	return n, reason, st.Machines > s.Max
}

// divide returns how many parts of a size hold n, at most maxMachines.
func divide(n, size int64) int {
	if n <= 0 {
		return 0
	}
	return int(min((n-1)/size+1, maxMachines))
}
