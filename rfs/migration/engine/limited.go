package engine

import (
	"context"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// limited is a Destination that calls admit before each body.
type limited struct {
	Destination
	admit func(ctx context.Context, bytes int) error
}

// Limited returns d with a rate limit: before each body is sent, admit blocks until its bytes may be sent. A cluster uses Limits.Admit
// instead.
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

// Send blocks until the body may be sent, then checks mayStart again before sending, because the wait can outlast the lease.
func (o limitedOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if err := o.admit(ctx, len(body)); err != nil {
		return bulk.Result{}, err
	}
	if err := o.mayStart(); err != nil {
		return bulk.Result{}, err
	}
	return o.Output.Send(ctx, body, n)
}
