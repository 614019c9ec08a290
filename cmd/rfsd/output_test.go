package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/progress"
	"github.com/rfsd/rfsd/rfs/worker"
)

func TestSummaryCallsTheTargetSafeOnlyWhenEveryRequestHasEnded(t *testing.T) {
	now := time.Now()
	later, before := now.Add(time.Minute), now.Add(-time.Minute)
	for _, c := range []struct {
		name    string
		from    *time.Time
		cluster bool
		says    string // "" for nothing about safety
	}{
		{"work is open", nil, true, ""},
		{"requests may be under way", &later, true, "safe to write: not before " + later.UTC().Format(time.RFC3339)},
		{"everything is quiet", &before, true, "safe to write: yes"},
		{"an export has no target", &before, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r := &report{Summary: &worker.Summary{SafeFrom: c.from}, Cluster: c.cluster}
			r.writeText(&out)
			if says := strings.Contains(out.String(), "safe to write"); says != (c.says != "") || !strings.Contains(out.String(), c.says) {
				t.Errorf("want %q in:\n%s", c.says, out.String())
			}
		})
	}
}

func TestTheTextOfProgress(t *testing.T) {
	documents := progress.Phase{Name: "documents", State: progress.InProgress}
	for _, c := range []struct {
		name      string
		view      progress.View
		rehearsal bool
		want      string
	}{
		{"indices are created", progress.View{Phase: progress.Phase{Name: "indices", Done: 3, Total: 1200, Unit: "indices"}}, false, "creating indices: 3 of 1 200 indices"},
		{"the source makes the snapshot", progress.View{Phase: progress.Phase{Name: "snapshot"}}, false, "waiting for the snapshot"},
		{"nothing is created in a rehearsal", progress.View{Phase: progress.Phase{Name: "indices", Done: 1, Total: 2, Unit: "indices"}}, true, "reading the metadata of indices: 1 of 2 indices"},
		{"documents", progress.View{Phase: documents, Documents: 1500, Rate: 50, Mean: 40, ByteRate: 1000, Share: 0.25, Left: 90 * time.Second}, false,
			"1 500 documents, 50 documents/s (mean 40), 1.0 kB/s, 25.0 %, 1m30s left"},
		{"a rehearsal sends nothing", progress.View{Phase: documents, Documents: 1}, true, "rehearsal, nothing is sent: 1 documents, 0 documents/s (mean 0), 0 B/s"},
		{"a silent target and failures", progress.View{Phase: documents, Documents: 9, Failed: 2, Quiet: 40 * time.Second}, false,
			"9 documents, 0 documents/s (mean 0), 0 B/s, no document arrived for 40s, 2 failed"},
		{"the store was not read yet", progress.View{}, false, "0 documents, 0 documents/s (mean 0), 0 B/s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := migrationProgress(func() progress.View { return c.view }, c.rehearsal)(1); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
