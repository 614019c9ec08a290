package report_test

import (
	"testing"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

func TestEnded(t *testing.T) {
	reduced := &progress.Migration{Complete: true, Totals: progress.Counts{Indexed: 2, Reduced: 1}}
	lost := &progress.Migration{Complete: true, Totals: progress.Counts{Failed: 1, ItemsBad: 1, Undelivered: 38}, Failures: []progress.Failure{{Reason: "checksum", Count: 1, Examples: []string{"shard 0 of logs"}}}}
	for _, c := range []struct {
		name     string
		m        *progress.Migration
		code     exit.Code
		accepted bool
		says     string
	}{
		{"reduced sources", reduced, exit.Documents, false, "1 document with a reduced source"},
		{"reduced sources that are accepted", reduced, exit.OK, true, ""},
		{"failed documents though reduced sources are accepted", &progress.Migration{Complete: true, Totals: progress.Counts{Failed: 1, Reduced: 1}}, exit.Documents, true, "1 document failed"},
		{"stopped before the store was read", nil, exit.OK, false, ""},
		{"stopped before the end", &progress.Migration{Totals: progress.Counts{Failed: 1}}, exit.OK, false, ""},
		{"every document arrived", &progress.Migration{Complete: true, Totals: progress.Counts{Indexed: 1}}, exit.OK, false, ""},
		{"failed documents", &progress.Migration{Complete: true, Totals: progress.Counts{Failed: 2}}, exit.Documents, false, "2 documents failed"},
		{"failed items win over failed documents", lost, exit.Parts, false,
			"1 document failed; 1 given up (shard 0 of logs): checksum; at most 38 documents of failed shards were not delivered"},
		{"an index that was given up", &progress.Migration{Complete: true, Failures: []progress.Failure{{Reason: "no mapping", Count: 1, Examples: []string{"index logs"}}}}, exit.Parts, false,
			"1 given up (index logs): no mapping"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := report.Ended(c.m, c.accepted)
			if code, _ := exit.Of(err); code != c.code || (m != nil) != (c.m != nil && c.m.Complete) {
				t.Errorf("exit code %d, want %d; %+v", code, c.code, m)
			}
			if want := "complete with losses: " + c.says + "; rfsctl failures lists them"; c.says != "" && (err == nil || err.Error() != want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}
