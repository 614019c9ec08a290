package progress_test

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

func TestTheTextOfAView(t *testing.T) {
	documents := progress.Phase{Name: "documents", State: progress.InProgress}
	left := 90.0
	for _, c := range []struct {
		name string
		view progress.View
		want string
	}{
		{"indices are created", progress.View{Phase: progress.Phase{Name: "indices", Done: 3, Total: 1200, Unit: "indices"}}, "creating indices: 3 of 1,200 indices"},
		{"the source makes the snapshot", progress.View{Phase: progress.Phase{Name: "snapshot"}}, "waiting for the snapshot"},
		{"nothing is created in a dry run", progress.View{DryRun: true, Phase: progress.Phase{Name: "indices", Done: 1, Total: 2, Unit: "indices"}}, "reading the metadata of indices: 1 of 2 indices"},
		{"documents", progress.View{Phase: documents, Documents: 1500, Rate: 50, Mean: 40, SourceRate: 1000, Share: 0.25, Left: &left},
			"1,500 documents, 50 documents/s (mean 40), 1000 B/s, 25.0 % of the bytes, about 1m30s left"},
		{"a dry run sends nothing", progress.View{DryRun: true, Phase: documents, Documents: 1}, "dry run, nothing is sent: 1 documents, 0 documents/s (mean 0), 0 B/s"},
		{"a silent target and failures", progress.View{Phase: documents, Documents: 9, Failed: 2, Quiet: 40},
			"9 documents, 0 documents/s (mean 0), 0 B/s, no document arrived for 40s, 2 failed"},
		{"items were given up", progress.View{Phase: documents, Documents: 9, GivenUp: 3}, "9 documents, 0 documents/s (mean 0), 0 B/s, 3 given up"},
		{"all that was given up is named", progress.View{Phase: documents, Documents: 9, GivenUp: 1, GivenUpNames: []string{"index orders"}},
			"9 documents, 0 documents/s (mean 0), 0 B/s, 1 given up (index orders)"},
		{"some of it is named", progress.View{Phase: documents, Documents: 9, GivenUp: 1200, GivenUpNames: []string{"index a", "index b"}},
			"9 documents, 0 documents/s (mean 0), 0 B/s, 1,200 given up (such as index a, index b)"},
		{"no process works", progress.View{State: progress.StateWaiting, Documents: 9}, "9 documents, no work is in progress"},
		{"the end", progress.View{State: progress.StateComplete, Documents: 9, Failed: 1, Share: 1}, "9 documents, complete, 1 failed"},
		{"the store was not read yet", progress.View{}, "0 documents, 0 documents/s (mean 0), 0 B/s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.view.String(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
