package wiring

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// writable decides to which indices a redrive may write. Neither lines of files nor records that others can write decide it.
type writable struct {
	o       Options
	ledger  *rollback.Ledger // nil: the state of the session was removed
	targets map[string]bool  // of the session, as a file of this operator holds them
	again   func(more ...string) string
}

// newWritable returns the indices to which a redrive of a session may write. kept is its state, nil if it was removed. again returns the command line of this redrive with more options.
func newWritable(ctx context.Context, o Options, kept *cms.Coordinator, ledger *rollback.Ledger, again func(more ...string) string) (writable, error) {
	p := writable{o: o, ledger: ledger, again: again}
	var err error
	if kept != nil && o.coordinatorFile != "" {
		p.targets, err = phase.SessionTargets(ctx, kept)
	}
	return p, err
}

// mayNot returns why documents may not be sent to an index, "" if they may: it carries the mark of the session, the file of
// --coordinator-file proves it, or --index-allowlist names it.
func (p writable) mayNot(ctx context.Context, index string) (string, error) {
	name := []byte(index)
	switch {
	case !importer.ValidIndex(name):
		return fmt.Sprintf("%.300q is not a name of an index", index), nil
	case importer.LeftOut(name, true):
		return "rfsd keeps its own state there", nil
	case importer.LeftOut(name, p.o.includeSystem):
		return "it is an index of the system; if the documents belong there: " + p.again("--include-system", "--index-allowlist", index), nil
	case p.targets[index], p.o.named && p.o.indices.Match(index):
		return "", nil
	}
	if p.ledger != nil {
		owned, err := p.ledger.Owns(ctx, index)
		if err != nil {
			return "", fmt.Errorf("mark of the session on %s: %w", index, err)
		}
		if owned {
			return "", nil
		}
	}
	return "the session did not create it (it carries no mark of the session); if the documents belong there: " + p.again("--index-allowlist", index), nil
}
