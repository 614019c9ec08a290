package cms

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ReleaseDead gives back whatever a process held that is proven dead: items, the right to
// seed, phases, the audit. prefix is the holder that the process was started with; a number follows it in
// each acquisition. Items are released for cause, the rest without counting an attempt.
func (c *Coordinator) ReleaseDead(ctx context.Context, prefix string, cause Cause) error {
	if prefix == "" {
		return nil
	}
	prefix += "_"
	it, err := c.get(ctx, c.setup())
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("read %s: %w", c.setup(), err)
	}
	if err == nil && it.Open() && strings.HasPrefix(it.Holder, prefix) {
		if err := c.ReleaseHolder(ctx, c.setup(), it.Holder, CauseKilled); err != nil {
			return err
		}
	}
	held := map[string]string{auditID: kindAudit}
	for _, name := range Phases() {
		held[phaseID(name)] = kindPhase
	}
	for id, kind := range held {
		_, err := c.change(ctx, id, kind, func(r Record, _ time.Time) (Record, Result) {
			if !strings.HasPrefix(r.Holder, prefix) {
				return r, Already
			}
			r.Holder, r.Expire = "", 0
			if id != phaseID(DocsPhase) { // whose attempts are counted when they have failed
				r.Attempts = max(r.Attempts-1, 0)
			}
			return r, Applied
		})
		if err != nil {
			return err
		}
	}
	for it, err := range c.Items(ctx) {
		if err != nil {
			return fmt.Errorf("release what %s held: %w", prefix, err)
		}
		if it.Open() && strings.HasPrefix(it.Holder, prefix) {
			if err := c.ReleaseHolder(ctx, it.ID, it.Holder, cause); err != nil {
				return err
			}
		}
	}
	return nil
}
