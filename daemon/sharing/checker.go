package sharing

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Checker checks and signs the record of the fleet's settings.
type Checker struct {
	Keys Keys // none: records are not signed
	Seen Seen
}

// Of returns how far this node trusts a record. If it trusts all of it, it keeps the record's revision.
func (c Checker) Of(scope Scope, record session.SharedRecord) (Trust, error) {
	seen, err := c.Seen.Revision(scope)
	if err != nil {
		return Trust{}, err
	}
	t := TrustOf(c.Keys, scope, record, seen)
	if t.Doubt == "" {
		err = c.Seen.Note(scope, record.Revision)
	}
	return t, err
}

// Share stores settings for the fleet, signed if there are keys, and reports whether it stored them. With replace it overwrites existing
// settings. scope returns the scope of the record.
func (c Checker) Share(ctx context.Context, kept session.SharedSettings, settings session.Shared, replace bool, scope func(context.Context) (Scope, error)) (stored bool, err error) {
	record := session.SharedRecord{Settings: settings}
	if len(c.Keys) == 0 {
		return kept.Share(ctx, record, replace)
	}
	valid, err := scope(ctx)
	if err != nil {
		return false, err
	}
	seen, err := c.Seen.Revision(valid)
	if err != nil {
		return false, err
	}
	var before int64
	if was, err := kept.Read(ctx); err == nil && c.Keys.Signed(valid, was) {
		before = was.Revision
	}
	record.Revision = Next(seen, before, time.Now().UnixMilli())
	stored, err = kept.Share(ctx, c.Keys.Sign(valid, record), replace)
	if err != nil || !stored {
		return stored, err
	}
	return stored, c.Seen.Note(valid, record.Revision)
}
