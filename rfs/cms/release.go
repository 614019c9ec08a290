package cms

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ReleaseDead gives back whatever a process held that is proven dead: items, the right to
// seed, phases. holder is the name that the process was started with; "_" and more follow it
// in each acquisition. Items are released for cause, the rest without counting an attempt.
func (c *Coordinator) ReleaseDead(ctx context.Context, holder string, cause Cause) error {
	if holder == "" {
		return nil
	}
	prefix := holder + "_"
	it, err := c.get(ctx, SetupID)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("read %s: %w", SetupID, err)
	}
	if err == nil && it.Open() && strings.HasPrefix(it.Holder, prefix) {
		if err := c.ReleaseHolder(ctx, SetupID, it.Holder, CauseKilled); err != nil {
			return err
		}
	}
	for _, name := range Phases() {
		_, err := c.change(ctx, phaseID(name), kindPhase, func(r Record, _ time.Time) (Record, Verdict) {
			return freeDead(r, prefix)
		})
		if err != nil {
			return err
		}
	}
	for it, err := range c.Items(ctx) {
		if err != nil {
			return fmt.Errorf("release what %s held: %w", holder, err)
		}
		if it.Open() && strings.HasPrefix(it.Holder, prefix) {
			if err := c.ReleaseHolder(ctx, it.ID, it.Holder, cause); err != nil {
				return err
			}
		}
	}
	return nil
}

func freeDead(r Record, prefix string) (Record, Verdict) {
	if !strings.HasPrefix(r.Holder, prefix) {
		return r, Already
	}
	r.Holder, r.Expire, r.Attempts = "", 0, max(r.Attempts-1, 0)
	return r, Applied
}
