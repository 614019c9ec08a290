package resend

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/recorded"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Targets decides to which indices a redrive may write. Neither lines of files nor records that others can write decide it.
type Targets struct {
	// Named reports whether the operator names an index; nil: none.
	Named         func(index string) bool
	IncludeSystem bool
	Ledger        *rollback.Ledger // of the session; nil: its state was removed
	Proven        map[string]bool  // targets of the session, as a file of this operator holds them
	// Again returns the command line of this redrive with more options.
	Again func(more ...string) string
}

// Proven returns the targets of a session whose records only this operator can write, in a file. kept is nil if they were removed.
func Proven(ctx context.Context, kept *cms.Coordinator, file bool) (map[string]bool, error) {
	if kept == nil || !file {
		return nil, nil
	}
	return recorded.Targets(ctx, kept)
}

// MayNot returns why documents may not be sent to an index, "" if they may: it carries the mark of the session, the file of
// --coordinator-file proves it, or --index-allowlist names it.
func (t *Targets) MayNot(ctx context.Context, index string) (string, error) {
	name := []byte(index)
	switch {
	case !importer.ValidIndex(name):
		return fmt.Sprintf("%.300q is not a name of an index", index), nil
	case importer.LeftOut(name, true):
		return "rfsd keeps its own state there", nil
	case importer.LeftOut(name, t.IncludeSystem):
		return "it is an index of the system; if the documents belong there: " + t.Again("--include-system", "--index-allowlist", index), nil
	case t.Proven[index], t.Named != nil && t.Named(index):
		return "", nil
	}
	if t.Ledger != nil {
		owned, err := t.Ledger.Owns(ctx, index)
		if err != nil {
			return "", fmt.Errorf("mark of the session on %s: %w", index, err)
		}
		if owned {
			return "", nil
		}
	}
	return "the session did not create it (it carries no mark of the session); if the documents belong there: " + t.Again("--index-allowlist", index), nil
}
