package report

import (
	"fmt"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// Ended returns a migration that has come to its end, with its exit code as an error if there were losses; nil for one that was stopped.
func Ended(m *progress.Migration, acceptReduced bool) (*progress.Migration, error) {
	if m == nil || !m.Complete {
		return nil, nil
	}
	code := exit.OfMigration(m, acceptReduced)
	if code == exit.OK {
		return m, nil
	}
	lost := progress.View{Undelivered: m.Totals.Undelivered, Uncounted: m.Totals.Uncounted}.Lost()
	if lost != "" {
		lost = " (" + lost + ")"
	}
	reason := "" // the most frequent one
	if len(m.Failures) > 0 {
		reason = "; " + m.Failures[0].Reason
	}
	return m, exit.With(code, fmt.Errorf("complete with losses: %s refused or without source, %d with a reduced source, %s failed%s; `rfsctl failures` and the events name them%s",
		progress.Plural(m.Totals.Failed, "document"), m.Totals.Reduced, progress.Plural(m.Totals.ItemsBad, "work item"), lost, reason))
}
