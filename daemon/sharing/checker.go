package sharing

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Checker checks the record of the fleet's settings, and signs it.
type Checker struct {
	Keys Keys // none: nothing is signed
	Seen Seen
}

// Of returns how far this node believes a record, whose revision it keeps when it does.
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

// Share stores settings for the fleet, signed if there are keys, and reports whether it did: with replace also in place of other
// settings. scope returns where the record is valid.
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
