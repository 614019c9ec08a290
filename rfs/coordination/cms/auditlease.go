package cms

import (
	"context"
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
	l, _, err := c.leaseRecord(ctx, auditID, holder, Terms{Kind: kindAudit, Window: min(auditWindow, c.cfg.InitialLease)})
	return l, err
}

// EndAudit releases the lease of an audit.
func (c *Coordinator) EndAudit(ctx context.Context, l *RecordLease) error {
	return endLease(ctx, l, HolderChange{Free: true})
}
