package bulk

import "context"

// Bounds are how much a Loader sends at present, at most Options.MaxBytes and Options.MaxInFlight.
type Bounds interface {
	Bytes() int    // of a body
	InFlight() int // bodies under way at the same time; one is always allowed
}

// Requests are how long the requests of a process are at present, and how many are under way at the same time.
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

// InFlight returns how many bodies a slot may have under way.
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

// room blocks until one more body may be under way, and takes a slot for it.
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
