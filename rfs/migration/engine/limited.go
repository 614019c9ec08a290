package engine

import (
	"context"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// limited is a Destination whose bodies wait for admit.
type limited struct {
	Destination
	admit func(ctx context.Context, bytes int) error
}

// Limited returns d with a limit on the bytes sent: before each body admit blocks until its bytes may be sent. A cluster has the
// same in Limits.Admit; this is for the other destinations.
func Limited(d Destination, admit func(ctx context.Context, bytes int) error) Destination {
	return limited{d, admit}
}

// Open starts the output of one item.
func (l limited) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (Output, error) {
	out, err := l.Destination.Open(ctx, id, mayStart)
	if err != nil {
		return nil, err
	}
	return limitedOutput{out, l.admit, mayStart}, nil
}

type limitedOutput struct {
	Output
	admit    func(ctx context.Context, bytes int) error
	mayStart func() error
}

// Send blocks until the body may be sent, then sends it if the lease still permits: the wait can be longer than the lease.
func (o limitedOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if err := o.admit(ctx, len(body)); err != nil {
		return bulk.Result{}, err
	}
	if err := o.mayStart(); err != nil {
		return bulk.Result{}, err
	}
	return o.Output.Send(ctx, body, n)
}
