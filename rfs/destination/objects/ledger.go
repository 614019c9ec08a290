package objects

import (
	"context"
	"net/url"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// Ledger records created objects: once before the request that creates an object, and once after its response.
type Ledger interface {
	// Mark returns what objects of the session carry; zero: nothing.
	Mark(ctx context.Context) (Mark, error)
	// Intend records an object that does not exist yet and is about to be created.
	Intend(ctx context.Context, kind, name string) error
	// Confirm records an object whose creation the target has just acknowledged.
	Confirm(ctx context.Context, kind, name string) error
	// Decide completes what Intend recorded of an object that the target has, and whose creation was not acknowledged.
	Decide(ctx context.Context, kind, name string) error
	// Withdraw takes back what Intend recorded: the target refused the object.
	Withdraw(ctx context.Context, kind, name string) error
}

type unrecorded struct{}

func (unrecorded) Mark(context.Context) (Mark, error)             { return Mark{}, nil }
func (unrecorded) Intend(context.Context, string, string) error   { return nil }
func (unrecorded) Confirm(context.Context, string, string) error  { return nil }
func (unrecorded) Decide(context.Context, string, string) error   { return nil }
func (unrecorded) Withdraw(context.Context, string, string) error { return nil }

// ObjectPath returns the path of an object that belongs to no index, "" for another kind.
func ObjectPath(kind metadata.Kind, name string) string {
	place, ok := places[kind]
	if !ok {
		return ""
	}
	return place.path + url.PathEscape(name)
}
