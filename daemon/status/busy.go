package status

import (
	"context"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/stream/consume"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Busy returns a *cms.NoneAvailable with the holder of an unexpired lease in a session of any kind, or nil if it has none.
func Busy(ctx context.Context, store *cms.Coordinator) error {
	for _, busy := range []func(context.Context, *cms.Coordinator) error{
		func(ctx context.Context, c *cms.Coordinator) error { return session.HeldOf(c).Busy(ctx) }, importer.Busy, consume.Busy,
	} {
		if err := busy(ctx, store); err != nil {
			return err
		}
	}
	return nil
}
