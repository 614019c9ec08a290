package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/rfs/migration/summary"
)

func TestMigration_SafeToWrite(t *testing.T) {
	now := time.Now()
	later, before := now.Add(time.Minute), now.Add(-time.Minute)
	for _, c := range []struct {
		name    string
		from    *time.Time
		cluster bool
		says    string // "" for nothing about safety
	}{
		{"work is open", nil, true, ""},
		{"requests may be in progress", &later, true, "safe to write: not before " + later.UTC().Format(time.RFC3339)},
		{"everything is quiet", &before, true, "safe to write: yes"},
		{"an export has no target", &before, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r := &report.Migration{Summary: &summary.Summary{SafeFrom: c.from}, Cluster: c.cluster}
			r.WriteText(&out)
			if says := strings.Contains(out.String(), "safe to write"); says != (c.says != "") || !strings.Contains(out.String(), c.says) {
				t.Errorf("want %q in:\n%s", c.says, out.String())
			}
		})
	}
}
