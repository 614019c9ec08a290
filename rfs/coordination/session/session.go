// Package session keeps the records of a migration: what it is, what the operator wants, how far its phases and indices are, what it
// created, changed and could not deliver. They lie in the coordination store of package cms beside the items, whose leases are the
// business of cms; it does not know this package.
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

// Records reads and changes the records of a migration. It is safe for concurrent use.
type Records struct {
	items  *cms.Coordinator
	leases *cms.Leases
}

// Of returns the records of the migration whose items c leases.
func Of(c *cms.Coordinator) Records { return Records{items: c, leases: c.Leases()} }

// List yields the records of a kind (index, phase, event, target), in order of ids.
func (s Records) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return s.leases.List(ctx, kind)
}
