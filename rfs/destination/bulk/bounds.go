package bulk

import "context"

// Bounds are the current limits of a Loader, within Options.MaxBytes and Options.MaxInFlight.
type Bounds interface {
	Bytes() int    // maximum length of a body
	InFlight() int // maximum number of concurrent bodies, at least one
}

// Requests are the current limits of the length and the number of concurrent requests of a process.
type Requests interface {
	Bytes() int
	Requests() int
}

// Share divides the requests of a process among its slots. Slots whose bodies wait for a retry leave their share to the others.
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

// maxBytes returns the current maximum length of a body.
func (l *Loader) maxBytes() int {
	if l.opts.Bounds == nil {
		return l.opts.MaxBytes
	}
	return min(l.opts.MaxBytes, l.opts.Bounds.Bytes())
}

// acquireSlot blocks until one more body may be in flight, and acquires a slot for it.
func (l *Loader) acquireSlot(ctx context.Context) error {
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

// releaseSlot releases a slot and wakes acquireSlot.
func (l *Loader) releaseSlot() {
	<-l.slots
	select {
	case l.freed <- struct{}{}:
	default:
	}
}
