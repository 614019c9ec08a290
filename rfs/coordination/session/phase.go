package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Names of the phases; the record of a phase has the id "phase:<name>".
const (
	SnapshotPhase = "snapshot"
	MetadataPhase = "metadata"
	IndexPhase    = "index"
	DocsPhase     = "docs"
)

// States of phase records and index entries. A phase that was never started has no record.
const (
	PhaseNotStarted = "NOT_STARTED"
	PhaseSetup      = "SETUP"
	PhaseInProgress = "IN_PROGRESS"
	PhaseAudit      = "AUDIT"
	PhaseCompleted  = "COMPLETED"
	PhaseFailed     = "FAILED"
)

// PhaseNames lists the names in the order in which the phases run.
func PhaseNames() []string { return []string{SnapshotPhase, MetadataPhase, IndexPhase, DocsPhase} }

// leasedStates are the states in which a phase is leased; a reopened record gets the first one. The setup of the documents is leased by
// SetupID instead of the phase's record.
var leasedStates = map[string][]string{
	SnapshotPhase: {PhaseNotStarted, PhaseInProgress},
	MetadataPhase: {PhaseInProgress},
	IndexPhase:    {PhaseSetup},
	DocsPhase:     {PhaseSetup},
}

// phaseLease is the maximum lease of the first attempt at a phase.
const phaseLease = time.Minute

// PhaseWindow returns the lease of the n-th attempt at a phase: n × min(60 s, initial lease).
func PhaseWindow(initial time.Duration, attempt int) time.Duration {
	return time.Duration(max(attempt, 1)) * min(phaseLease, initial)
}

// SnapshotName returns the name of the snapshot that a session creates. Every worker derives the same one. It has at most 85 bytes: a–z,
// 0–9 and "-".
func SnapshotName(session string, settings map[string]string) string {
	if session == "" {
		session = "default"
	}
	return "rfs-" + session + "-" + digest(settings)[:16]
}

// Phase is the record of a phase.
type Phase struct {
	Name     string
	State    string // "" if it was never started
	Holder   string
	Expire   time.Time // of the holder's lease, by the store's clock; zero: free
	Attempts int
	Error    string // of the failure, or of the last attempt
	Body     json.RawMessage
	Created  time.Time
	Updated  time.Time
}

// phaseSubject returns the subject of events of a phase.
func phaseSubject(name string) string { return "phase " + name }

func phaseID(name string) string { return kindPhase + ":" + name }

func phaseOf(r cms.Record) Phase {
	p := Phase{
		Name: r.ID[len(kindPhase)+1:], State: r.State, Holder: r.Holder, Attempts: r.Attempts, Error: r.Error, Body: r.Body,
		Created: time.UnixMilli(r.CreatedAt), Updated: time.UnixMilli(r.UpdatedAt),
	}
	if r.Expire != 0 {
		p.Expire = time.UnixMilli(r.Expire)
	}
	return p
}

// Read reads the record of a phase. Without one its State is "".
func (s Phases) Read(ctx context.Context, name string) (Phase, error) {
	r, err := s.leases.Record(ctx, phaseID(name))
	if errors.Is(err, cms.ErrNotFound) {
		return Phase{Name: name}, nil
	}
	if err != nil {
		return Phase{}, err
	}
	return phaseOf(r), nil
}
