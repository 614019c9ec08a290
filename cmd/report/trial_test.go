package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/operation/trial"
)

// TestTrial_Time: a target that still got faster has no single time, in the text and in JSON.
func TestTrial_Time(t *testing.T) {
	for _, c := range []struct {
		name     string
		estimate trial.Estimate
		line     string
		seconds  bool
	}{
		{"known", trial.Estimate{Seconds: 90, Least: 70, Most: 120, Bound: trial.Sending}, "1m30s (1m10s to 2m0s), bound by sending", true},
		{"short", trial.Estimate{Seconds: 3, Most: 10, Bound: trial.Sending}, "less than 10s", true},
		{"still warming up", trial.Estimate{Least: 40, Most: 120, Warming: true, WarmUps: 3, Bound: trial.Sending}, "40s to 2m0s, bound by sending: the target still got faster", false},
		{"short, still warming up", trial.Estimate{Most: 10, Warming: true, Bound: trial.Sending}, "less than 10s", false},
	} {
		var out bytes.Buffer
		(&Trial{Estimate: &c.estimate}).write(&out)
		if !strings.Contains(out.String(), "time        "+c.line+"\n") {
			t.Errorf("%s:\n%s", c.name, out.String())
		}
		b, err := json.Marshal(c.estimate)
		if err != nil || strings.Contains(string(b), `"seconds":`) != c.seconds || strings.Contains(string(b), `"warming":true`) != c.estimate.Warming {
			t.Errorf("%s: %s, %v", c.name, b, err)
		}
	}
}
