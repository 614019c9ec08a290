package bulk

import "context"

// Bounds limit what a Loader sends at present, within Options.MaxBytes and Options.MaxInFlight.
type Bounds interface {
	Bytes() int    // of a body
	InFlight() int // maximum number of concurrent bodies, at least one
}

// Requests are the present limits of the length and the number of concurrent requests of a process.
type Requests interface {
	Bytes() int
	Requests() int
}

// Share divides the requests of a process over its slots. What those leave whose bodies wait for their next try is for the others.
type Share struct {
	Requests

	Slots    int
	Recovery *Recovery // of the Loaders of all slots
}

// InFlight returns the number of bodies that a slot may have in flight.
func (s Share) InFlight() int {
	slots := max(1, s.Slots-s.Recovery.Waiting())
	return (s.Requests.Requests() + slots - 1) / slots
}

// maxBytes returns how long a body may be at present.
func (l *Loader) maxBytes() int {
	if l.opts.Bounds == nil {
		return l.opts.MaxBytes
	}
	return min(l.opts.MaxBytes, l.opts.Bounds.Bytes())
}

// room blocks until one more body may be in flight, and takes a slot for it.
func (l *Loader) room(ctx context.Context) error {
	for l.opts.Bounds != nil && len(l.slots) >= max(1, l.opts.Bounds.InFlight()) {
		select {
		case <-l.freed:
		case <-l.dispatchCtx.Done():
			return l.reason()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-l.dispatchCtx.Done():
		return l.reason()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// freeSlot gives a slot back.
func (l *Loader) freeSlot() {
	<-l.slots
	select {
	case l.freed <- struct{}{}:
	default:
	}
}
