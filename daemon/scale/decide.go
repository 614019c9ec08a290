// Package scale converts the remaining work to a number of machines, which a driver starts and terminates. It assigns no work: a started
// machine runs rfsd, whose workers acquire leases like all others. Only the leader of a fleet calls it.
package scale

import (
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// Settings are the limits for starting and terminating machines. The configuration has validated them.
type Settings struct {
	Min, Max       int           // number of machines while work is left; Max must be positive
	MachineWorkers int           // workers of one machine; at least 1
	WorkerBytes    int64         // repository bytes per desired worker; 0: one worker per open item
	Cooldown       time.Duration // between two changes while work is left
	Budget         time.Duration // total instance time, after which no machines run; 0: no limit
	KeepMin        bool          // keep Min machines when the work is complete, rather than none
}

// Demand is the remaining work, as of the leader's last read of the store.
type Demand struct {
	Known    bool   // the work is planned and was read
	Complete bool   // every phase has ended and no item is open
	Held     string // reason why no work is done at present, such as a pause or the time between two rounds; "" while work is done
	Workers  *int   // as set by an operator; nil: as the work requires
	Items    int64
	Bytes    int64 // of the repository
}

// State is the state of the scaler. It is a record in the coordination store, which the next leader continues.
type State struct {
	Leader   string `json:"leader"`
	At       int64  `json:"at"`       // epoch ms of the store's clock: last round
	Machines int    `json:"machines"` // requested from the driver
	Changed  int64  `json:"changed"`  // epoch ms of the last change of Machines; 0: none
	Reason   string `json:"reason"`   // of Machines
	Running  int    `json:"running"`  // as the driver reported
	UsedMs   int64  `json:"used_ms"`  // instance time
	Error    string `json:"error,omitempty"`
	Final    bool   `json:"final,omitempty"` // the driver has applied Machines after the work was complete
}

// maxMachines limits numbers that are read from the store.
const maxMachines = 1 << 14

// clamp returns st with all values within valid limits, because records are not trusted.
func (st State) clamp(now int64) State {
	st.Machines, st.Running = min(max(st.Machines, 0), maxMachines), min(max(st.Running, 0), maxMachines)
	st.At, st.Changed = min(max(st.At, 0), now), max(st.Changed, 0)
	if st.Changed > now {
		st.Changed = 0
	}
	st.UsedMs = min(max(st.UsedMs, 0), 1<<60)
	return st
}

// next returns the next state; now is in epoch ms.
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

// wanted returns the number of machines, the reason, and whether the change skips the cool-down.
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

// divide returns the number of parts of a size that n needs, at most maxMachines.
func divide(n, size int64) int {
	if n <= 0 {
		return 0
	}
	return int(min((n-1)/size+1, maxMachines))
}
