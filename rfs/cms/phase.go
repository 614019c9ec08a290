package cms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Names of the phases; the record of a phase has the id "phase:<name>".
const (
	SnapshotPhase = "snapshot"
	MetadataPhase = "metadata"
	IndexPhase    = "index"
	DocsPhase     = "docs"
)

// States of phase records and index entries. A phase nobody began has no record.
const (
	PhaseNotStarted = "NOT_STARTED"
	PhaseSetup      = "SETUP"
	PhaseInProgress = "IN_PROGRESS"
	PhaseAudit      = "AUDIT"
	PhaseCompleted  = "COMPLETED"
	PhaseFailed     = "FAILED"
)

// Phases lists the names in the order in which the phases run.
func Phases() []string { return []string{SnapshotPhase, MetadataPhase, IndexPhase, DocsPhase} }

// leasedStates are the states in which a phase is worked on under a lease; the first is that of a record that is opened
// again. The documents' setup is leased by SetupID instead of its record.
var leasedStates = map[string][]string{
	SnapshotPhase: {PhaseNotStarted, PhaseInProgress},
	MetadataPhase: {PhaseInProgress},
	IndexPhase:    {PhaseSetup},
	DocsPhase:     {PhaseSetup},
}

// ErrPhaseMoved means that the phase is no longer in a state that is worked on under a lease.
var ErrPhaseMoved = errors.New("the phase has moved on")

// phaseLease is the window of the first attempt at a phase.
const phaseLease = time.Minute

// PhaseWindow is the lease of the n-th attempt at a phase: n × min(60 s, initial lease).
func PhaseWindow(initial time.Duration, attempt int) time.Duration {
	return time.Duration(max(attempt, 1)) * min(phaseLease, initial)
}

// SnapshotName is the name of the snapshot that a session creates: every worker derives the
// same one. It has at most 85 bytes, all of them a–z, 0–9 and "-".
func SnapshotName(session string, settings map[string]string) string {
	if session == "" {
		session = "default"
	}
	return "rfs-" + session + "-" + digest(settings)[:16]
}

// Phase is the record of a phase.
type Phase struct {
	Name     string
	State    string // "" when nobody began
	Holder   string
	Expire   time.Time // of the holder's lease, by the store's clock; zero: free
	Attempts int
	Error    string // why it failed, or why the last attempt did
	Body     json.RawMessage
	Created  time.Time
	Updated  time.Time
}

// Over says that nobody needs to work on the phase any more.
func (p Phase) Over() bool { return p.State == PhaseCompleted || p.State == PhaseFailed }

// phaseSubject is what events of a phase are about.
func phaseSubject(name string) string { return "phase " + name }

func phaseID(name string) string { return kindPhase + ":" + name }

func phaseOf(r Record) Phase {
	p := Phase{
		Name: r.ID[len(kindPhase)+1:], State: r.State, Holder: r.Holder, Attempts: r.Attempts, Error: r.Error, Body: r.Body,
		Created: time.UnixMilli(r.CreatedAt), Updated: time.UnixMilli(r.UpdatedAt),
	}
	if r.Expire != 0 {
		p.Expire = time.UnixMilli(r.Expire)
	}
	return p
}

// Phase reads the record of a phase; its State is "" when there is none.
func (c *Coordinator) Phase(ctx context.Context, name string) (Phase, error) {
	r, err := c.record(ctx, phaseID(name))
	if errors.Is(err, ErrNotFound) {
		return Phase{Name: name}, nil
	}
	if err != nil {
		return Phase{}, err
	}
	return phaseOf(r), nil
}

// acquirePhase leases a phase record whose lease is free or over, or marks it FAILED
// when it was tried too often. It is a pure function, as all changes of records here.
type acquirePhase struct {
	Holder   string
	States   []string      // in which the record may be leased; the first is that of a new one
	Window   time.Duration // of the first attempt
	Grace    time.Duration // a lease is stolen only this long after its end
	Attempts int           // in a row without progress
}

func (a acquirePhase) apply(r Record, now time.Time) (Record, Verdict) {
	switch {
	case r.State != "" && !slices.Contains(a.States, r.State):
		return r, Done
	case r.Holder == a.Holder && r.Expire > now.UnixMilli():
		return r, Already
	case r.Expire != 0 && r.Expire+a.Grace.Milliseconds() >= now.UnixMilli():
		return r, Held
	case r.Attempts >= a.Attempts:
		r.State, r.Holder, r.Expire = PhaseFailed, "", 0
		why := r.Error
		if why == "" {
			why = "every worker that tried died or lost its lease"
		}
		r.Error = fmt.Sprintf("given up after %d attempts: %s", r.Attempts, why)
		return r, Exhausted
	}
	if r.State == "" {
		r.State = a.States[0]
	}
	r.Attempts++
	r.Holder, r.Expire = a.Holder, now.Add(time.Duration(r.Attempts)*a.Window).UnixMilli()
	return r, Applied
}

// heldPhase is a change that only the holder of an unexpired lease may make.
type heldPhase struct {
	Holder string
	Window time.Duration // of the first attempt; > 0 renews the lease
	State  string        // "" keeps it
	Body   json.RawMessage
	Moved  bool // there is progress: attempts count from one again
	Free   bool // gives the lease back
	Forget bool // with Free: the attempt does not count
	Error  string
}

func (h heldPhase) apply(r Record, now time.Time) (Record, Verdict) {
	switch {
	case r.Holder != h.Holder && h.State != "" && r.State == h.State && r.Holder == "":
		return r, Already // our own answer was lost, or somebody else ended it the same way
	case r.Holder != h.Holder, r.Expire <= now.UnixMilli() && !h.Free:
		return r, Lost
	}
	if h.State != "" {
		r.State = h.State
	}
	if h.Body != nil {
		r.Body = h.Body
	}
	if h.Moved {
		r.Attempts = 1
	}
	if h.Free {
		r.Holder, r.Expire = "", 0
		r.Error = h.Error
		if h.Forget {
			r.Attempts = max(r.Attempts-1, 0)
		}
		return r, Applied
	}
	r.Expire = now.Add(time.Duration(r.Attempts) * h.Window).UnixMilli()
	return r, Applied
}
