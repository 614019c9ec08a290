// Package session keeps the records of a migration: its settings, the operator's desired state, the progress of its phases and indices, and
// what it created, changed and could not deliver. The records are in the coordination store of package cms, next to the items; cms does not
// import this package.
package session

import (
	"context"
	"iter"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Kinds of records; an id is "kind:key".
const (
	kindIndex  = "index"
	kindTarget = "target"
	kindPhase  = "phase"
	kindMeta   = "meta"
)

// records are the handles used by every type of this package. The types differ in the records that they read and change; all are safe for
// concurrent use.
type records struct {
	items  *cms.Coordinator
	leases *cms.Leases
}

func of(c *cms.Coordinator) records { return records{items: c, leases: c.Leases()} }

// Identity reads and binds the identity of a session: the settings with which it started, its source and target, the mark of its objects,
// and whether it is being undone.
type Identity records

// IdentityOf returns the identity of the session whose items c leases.
func IdentityOf(c *cms.Coordinator) Identity { return Identity(of(c)) }

// Orders reads and changes the operator's desired state of the fleet.
type Orders records

// OrdersOf returns the orders of the session whose items c leases.
func OrdersOf(c *cms.Coordinator) Orders { return Orders(of(c)) }

// Phases leases the phases and changes their states.
type Phases records

// PhasesOf returns the phases of the session whose items c leases.
func PhasesOf(c *cms.Coordinator) Phases { return Phases(of(c)) }

// Entries reads and changes the entry of each index.
type Entries records

// EntriesOf returns the entries of the session whose items c leases.
func EntriesOf(c *cms.Coordinator) Entries { return Entries(of(c)) }

// Batches leases batches of indices, which the processes of a session create.
type Batches records

// BatchesOf returns the batches of the session whose items c leases.
func BatchesOf(c *cms.Coordinator) Batches { return Batches(of(c)) }

// Audits compares the items with the entries, and ends a session whose items are all done.
type Audits records

// AuditsOf returns the audits of the session whose items c leases.
func AuditsOf(c *cms.Coordinator) Audits { return Audits(of(c)) }

// Held reads and releases the leases of workers.
type Held records

// HeldOf returns the leases that workers of the session hold.
func HeldOf(c *cms.Coordinator) Held { return Held(of(c)) }

// Created lists the objects that a session created on its target and its source.
type Created records

// CreatedOf returns the list of the session whose items c leases.
func CreatedOf(c *cms.Coordinator) Created { return Created(of(c)) }

// Tunings keeps the former settings of indices that are tuned for the load.
type Tunings records

// TuningsOf returns the former settings of indices that the session whose items c leases has changed.
func TuningsOf(c *cms.Coordinator) Tunings { return Tunings(of(c)) }

// Priors keeps the documents that target indices held before an import.
type Priors records

// PriorsOf returns the prior documents of the session whose items c leases.
func PriorsOf(c *cms.Coordinator) Priors { return Priors(of(c)) }

// Refusals keeps documents that did not arrive, for sessions without another place for them.
type Refusals records

// RefusalsOf returns the refused documents of the session whose items c leases.
func RefusalsOf(c *cms.Coordinator) Refusals { return Refusals(of(c)) }

// Places lists the directories and buckets that hold failed documents.
type Places records

// PlacesOf returns the places of the session whose items c leases.
func PlacesOf(c *cms.Coordinator) Places { return Places(of(c)) }

// Redrives counts the failed documents of each place that were delivered later.
type Redrives records

// RedrivesOf returns the counts of the session whose items c leases.
func RedrivesOf(c *cms.Coordinator) Redrives { return Redrives(of(c)) }

// Deliveries keeps which events each node has sent.
type Deliveries records

// DeliveriesOf returns the deliveries of the session whose items c leases.
func DeliveriesOf(c *cms.Coordinator) Deliveries { return Deliveries(of(c)) }

// SharedSettings keeps the settings that one node shares with the others.
type SharedSettings records

// SharedSettingsOf returns the shared settings of the session whose items c leases.
func SharedSettingsOf(c *cms.Coordinator) SharedSettings { return SharedSettings(of(c)) }

// List yields the records of a kind (index, phase, event, target), in order of ids.
func List(ctx context.Context, c *cms.Coordinator, kind string) iter.Seq2[cms.Record, error] {
	return c.Leases().List(ctx, kind)
}
