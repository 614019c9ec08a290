package objects

import (
	"context"
	"net/url"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// Ledger records created objects: once before the request that creates an object, and once after its response.
type Ledger interface {
	// Mark returns the mark of the session's objects; the zero Mark for none.
	Mark(ctx context.Context) (Mark, error)
	// Intend records an object that does not exist yet and is about to be created.
	Intend(ctx context.Context, kind, name string) error
	// Confirm records an object whose creation the target has just acknowledged.
	Confirm(ctx context.Context, kind, name string) error
	// Decide completes the record of an object that exists although the target did not acknowledge its creation.
	Decide(ctx context.Context, kind, name string) error
	// Withdraw removes the record of an object that the target rejected.
	Withdraw(ctx context.Context, kind, name string) error
}

type unrecorded struct{}

func (unrecorded) Mark(context.Context) (Mark, error)             { return Mark{}, nil }
func (unrecorded) Intend(context.Context, string, string) error   { return nil }
func (unrecorded) Confirm(context.Context, string, string) error  { return nil }
func (unrecorded) Decide(context.Context, string, string) error   { return nil }
func (unrecorded) Withdraw(context.Context, string, string) error { return nil }

// ObjectPath returns the path of a cluster-wide object, "" for other kinds.
func ObjectPath(kind metadata.Kind, name string) string {
	place, ok := places[kind]
	if !ok {
		return ""
	}
	return place.path + url.PathEscape(name)
}
