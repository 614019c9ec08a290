package cms

import (
	"context"
	"errors"
	"strconv"
	"time"
)

const (
	kindAudit = "audit"
	auditID   = kindAudit + ":" + DocsPhase
)

// auditWindow is the lease of the audit of the documents, at most: after a process that died, others wait so long.
const auditWindow = 20 * time.Second

// LeaseAudit leases the audit of the documents, which reads every item and every target index: one process at a time does it,
// so that a fleet does not do it as often as it has processes. Nothing depends on the lease but that: an audit may be repeated.
// A *NoneAvailable reports who has it.
func (c *Coordinator) LeaseAudit(ctx context.Context, holder string) (*RecordLease, error) {
	l, _, err := c.leases.Acquire(ctx, auditID, Terms{
		Kind: kindAudit, Holder: holder + "_" + strconv.FormatInt(c.seq.Add(1), 10),
		Window: min(auditWindow, c.cfg.InitialLease), Grace: c.grace,
	})
	var held *HeldError
	if errors.As(err, &held) {
		return nil, &NoneAvailable{Holder: held.Holder, NextExpiry: held.Until.Add(c.grace), Open: 1}
	}
	return l, err
}

// EndAudit gives the lease of an audit back.
func (c *Coordinator) EndAudit(ctx context.Context, l *RecordLease) error {
	return endLease(ctx, l, HolderChange{Free: true})
}
