package report

import (
	"testing"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

func TestEnded(t *testing.T) {
	reduced := &progress.Migration{Complete: true, Totals: progress.Counts{Indexed: 2, Reduced: 1}}
	for _, c := range []struct {
		name     string
		m        *progress.Migration
		code     exit.Code
		accepted bool
	}{
		{"reduced sources", reduced, exit.Documents, false},
		{"reduced sources that are accepted", reduced, exit.OK, true},
		{"refused documents though reduced sources are accepted", &progress.Migration{Complete: true, Totals: progress.Counts{Failed: 1, Reduced: 1}}, exit.Documents, true},
		{"stopped before the store was read", nil, exit.OK, false},
		{"stopped before the end", &progress.Migration{Totals: progress.Counts{Failed: 1}}, exit.OK, false},
		{"every document arrived", &progress.Migration{Complete: true, Totals: progress.Counts{Indexed: 1}}, exit.OK, false},
		{"refused documents", &progress.Migration{Complete: true, Totals: progress.Counts{Failed: 1}}, exit.Documents, false},
		{"failed items win over refused documents", &progress.Migration{Complete: true, Totals: progress.Counts{Failed: 1, ItemsBad: 1}}, exit.Parts, false},
		{"an index that was given up", &progress.Migration{Complete: true, Failures: []progress.Failure{{Reason: "x", Count: 1}}}, exit.Parts, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Ended(c.m, c.accepted)
			if code, _ := exit.Of(err); code != c.code || (m != nil) != (c.m != nil && c.m.Complete) {
				t.Errorf("exit code %d, want %d; %+v", code, c.code, m)
			}
		})
	}
}
