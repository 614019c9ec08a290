package report

import (
	"fmt"
	"io"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/stream/consume"
)

// Stream is the report of rfsd consume. The numbers are sums over all processes, except OwnMessages.
type Stream struct {
	consume.Account
	Idle        int                   `json:"idle_nodes"`
	Session     string                `json:"session"`
	OwnMessages int64                 `json:"own_messages"`       // read by this process, also those that were sent again
	Redriven    int64                 `json:"redriven,omitempty"` // of the indexed messages: they failed first, and rfsd redrive has delivered them
	Seconds     float64               `json:"seconds"`
	ExitCode    exit.Code             `json:"-"`
	Failures    []status.RefusedGroup `json:"failures,omitempty"` // classes of the messages that failed, as they failed first
	FailedDir   string                `json:"-"`
	UntilEnd    bool                  `json:"-"` // the run ends with the topic, and failed documents change its exit code
}

// Conclude decides the exit code, prints the report to w, and returns the error that ends the command. The exit code of a stream that
// was interrupted is OK.
func (r *Stream) Conclude(w *output.Writer, err error) error {
	switch {
	case err != nil:
		r.ExitCode = exit.Failed
	case r.GivenUp > 0:
		r.ExitCode = exit.Parts
	case r.Counts.Failed > 0 && r.UntilEnd:
		r.ExitCode = exit.Documents
	}
	return Print(w, r, r.ExitCode, err)
}

// WriteText prints the messages of the stream, and what an operator has to look at.
func (r *Stream) WriteText(w io.Writer) {
	progress.Fprintf(w, "topic %s, group %s: %d partitions, lag %d\n", r.Topic, r.Group, len(r.Partitions), r.Lag)
	c := r.Counts
	progress.Fprintf(w, "messages %d: indexed or deleted %d, failed %d, filtered %d; %s\n", c.Live, c.Indexed, c.Failed, c.Filtered, progress.Bytes(c.Bytes))
	for _, p := range r.Partitions {
		if p.FailedItem() {
			fmt.Fprintf(w, "given up: partition %d at offset %d: %s\n", p.Number, p.Watermark, p.Failure)
		}
	}
	if r.Redriven > 0 {
		progress.Fprintf(w, "%d messages did not arrive when they were sent; rfsd redrive has delivered %d of them\n", c.Failed+r.Redriven, r.Redriven)
	}
	if c.Failed > 0 {
		progress.Fprintf(w, "%d messages did not arrive; each process keeps its own with their reasons (this one in %s)\n", c.Failed, r.FailedDir)
		Classes(w, r.Failures)
	}
	progress.Fprintf(w, "%.1f s, %d messages read by this process; the same command continues\n", r.Seconds, r.OwnMessages)
}
