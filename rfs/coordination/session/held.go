package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
)

// ReleaseDead releases everything that a process held which is proven dead: phases and the audit, without counting an attempt, its parts
// of the rates, and what ReleaseDead of a cms.Coordinator releases.
func (s Held) ReleaseDead(ctx context.Context, holder string, cause cms.Cause) error {
	if holder == "" {
		return nil
	}
	prefix := holder + "_"
	held := map[string]string{auditID: kindAudit}
	for _, name := range PhaseNames() {
		held[phaseID(name)] = kindPhase
	}
	for id, kind := range held {
		_, err := s.leases.Update(ctx, id, kind, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
			if !strings.HasPrefix(r.Holder, prefix) {
				return r, cms.Already
			}
			r.Holder, r.Expire = "", 0
			if id != phaseID(DocsPhase) { // counted when the attempt fails, not when it starts
				r.Attempts = max(r.Attempts-1, 0)
			}
			return r, cms.Applied
		})
		if err != nil {
			return err
		}
	}
	for _, option := range []string{MaxRate, MaxReadRate} {
		if err := primitive.ReleaseDead(ctx, s.leases, option, holder); err != nil {
			return err
		}
	}
	return s.items.ReleaseDead(ctx, holder, cause)
}

// Busy returns a *NoneAvailable for the process whose lease of an item or a phase ends last, or nil if none is held.
func (s Held) Busy(ctx context.Context) error {
	last, err := s.items.Busy(ctx)
	if err != nil {
		return err
	}
	now, _, err := s.leases.Now(ctx)
	if err != nil {
		return err
	}
	for r, err := range s.leases.List(ctx, kindPhase) {
		if err != nil {
			return fmt.Errorf("list phases: %w", err)
		}
		until := time.UnixMilli(r.Expire)
		if r.Holder != "" && r.Expire != 0 && !until.Before(now) && (last == nil || until.After(last.NextExpiry)) {
			last = &cms.NoneAvailable{Holder: r.Holder, NextExpiry: until, Open: 1}
		}
	}
	if last == nil {
		return nil
	}
	return last
}
