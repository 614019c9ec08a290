package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/migration/estimate"
	"github.com/rfsd/rfsd/rfs/operation/trial"
)

func TestTrial_Time(t *testing.T) {
	for _, c := range []struct {
		name     string
		estimate trial.Estimate
		line     string
	}{
		{"known", trial.Estimate{Seconds: 90, Least: 70, Most: 120, Bound: trial.Sending}, "1m30s (1m10s to 2m0s), bound by sending"},
		{"short", trial.Estimate{Seconds: 3, Most: 10, Bound: trial.Sending}, "less than 10s"},
		{"still getting faster", trial.Estimate{Seconds: 90, Most: 120, Bound: trial.Sending}, "less than 2m0s"},
	} {
		var out bytes.Buffer
		writeTrial(&out, &estimate.Trial{Estimate: &c.estimate})
		if !strings.Contains(out.String(), "time        "+c.line+"\n") {
			t.Errorf("%s:\n%s", c.name, out.String())
		}
	}
}
