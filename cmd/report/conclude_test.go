package report_test

import (
	"errors"
	"io"
	"testing"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/operation/verify"
)

func TestMigration_ExitCodeWithVerification(t *testing.T) {
	for _, c := range []struct {
		name     string
		failed   int64
		problems int
		state    verify.State // "": not verified
		err      error
		want     exit.Code
	}{
		{name: "equal", state: verify.Equal, want: exit.OK},
		{name: "only ids could be compared", state: verify.NotComparable, want: exit.OK},
		{name: "equal, documents failed", failed: 3, state: verify.Equal, want: exit.Documents},
		{name: "equal, a shard failed", problems: 1, failed: 3, state: verify.Equal, want: exit.Parts},
		{name: "documents that are recorded as failed did not arrive", state: verify.FailedDocuments, want: exit.Documents},
		{name: "a part cannot be read", failed: 3, state: verify.Unreadable, want: exit.Parts},
		{name: "different wins over failed documents", failed: 3, state: verify.Different, want: exit.Different},
		{name: "different wins over a failed shard", problems: 1, state: verify.Different, want: exit.Different},
		{name: "the comparison did not end", err: errors.New("no answer"), want: exit.Failed},
		{name: "its snapshot cannot be read", err: exit.With(exit.Snapshot, errors.New("damaged")), want: exit.Snapshot},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &report.Migration{Summary: &summary.Summary{Complete: true, Totals: cms.Counts{Failed: c.failed}, Problems: make([]summary.Problem, c.problems)}}
			if c.state != "" {
				r.Verification = &verify.Report{State: c.state}
			}
			code, _ := exit.Of(r.Conclude(output.New(io.Discard), c.err))
			if code != c.want || r.ExitCode != c.want {
				t.Errorf("exit %d, in the report %d, want %d", code, r.ExitCode, c.want)
			}
		})
	}
}
