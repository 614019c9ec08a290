package report

import (
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// Ended returns a complete migration, with its exit code as an error if documents were lost; nil if the migration is not complete.
func Ended(m *progress.Migration, acceptReduced bool) (*progress.Migration, error) {
	if m == nil || !m.Complete {
		return nil, nil
	}
	code := exit.OfMigration(m, acceptReduced)
	if code == exit.OK {
		return m, nil
	}
	var measure progress.Measure
	v, parts := measure.View(0, m), []string(nil)
	if v.Failed > 0 {
		parts = append(parts, progress.Plural(v.Failed, "document")+" failed")
	}
	if n := m.Totals.Reduced; n > 0 && !acceptReduced {
		parts = append(parts, progress.Plural(n, "document")+" with a reduced source")
	}
	if v.GivenUp > 0 {
		parts = append(parts, v.Abandoned()+": "+m.Failures[0].Reason) // the most frequent one
	}
	if lost := v.Lost(); lost != "" {
		parts = append(parts, lost)
	}
	return m, exit.With(code, fmt.Errorf("complete with losses: %s; rfsctl failures lists them", strings.Join(parts, "; ")))
}
