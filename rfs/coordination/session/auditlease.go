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

// auditWindow is the maximum lease of the audit of the documents. After the death of its holder, others wait for its end.
const auditWindow = 20 * time.Second

// Lease leases the audit of the documents, which reads every item and every target index, so that one process of a fleet does it and not
// each. The lease only saves work: an audit may be repeated. A *NoneAvailable reports the holder.
func (s Audits) Lease(ctx context.Context, holder string) (*cms.RecordLease, error) {
	l, _, err := s.items.LeaseRecord(ctx, auditID, holder, cms.Terms{Kind: kindAudit, Window: min(auditWindow, s.items.Config().InitialLease)})
	return l, err
}

// End releases the lease of an audit.
func (s Audits) End(ctx context.Context, l *cms.RecordLease) error {
	return l.End(ctx, cms.HolderChange{Free: true})
}
