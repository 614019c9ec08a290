package session

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	kindAudit = "audit"
	auditID   = kindAudit + ":" + DocsPhase
)

// auditWindow is the lease of the audit of the documents, at most: after a process that died, others wait so long.
const auditWindow = 20 * time.Second

// Lease leases the audit of the documents, which reads every item and every target index: one process at a time does it,
// so that a fleet does not do it as often as it has processes. Nothing depends on the lease but that: an audit may be repeated.
// A *NoneAvailable reports who has it.
func (s Audits) Lease(ctx context.Context, holder string) (*cms.RecordLease, error) {
	l, _, err := s.items.LeaseRecord(ctx, auditID, holder, cms.Terms{Kind: kindAudit, Window: min(auditWindow, s.items.Config().InitialLease)})
	return l, err
}

// End releases the lease of an audit.
func (s Audits) End(ctx context.Context, l *cms.RecordLease) error {
	return l.End(ctx, cms.HolderChange{Free: true})
}
