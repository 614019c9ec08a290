package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Import is the report of rfsd import. The numbers are sums over all processes, except OwnDocuments and OwnWindows.
type Import struct {
	Source  string `json:"source"`
	Session string `json:"session"`
	importer.Status
	OwnDocuments int64                 `json:"own_documents"` // read by this process, also in windows that it lost
	OwnWindows   int64                 `json:"own_windows"`
	Redriven     int64                 `json:"redriven,omitempty"` // of the indexed documents: they failed first, and rfsd redrive has delivered them
	Seconds      float64               `json:"seconds"`
	ExitCode     exit.Code             `json:"-"`
	FailedDir    string                `json:"-"`
	Failures     []status.RefusedGroup `json:"failures,omitempty"` // classes of the documents that failed, as they failed first
	cause        error                 // of an end before completion
}

// Conclude decides the exit code, prints the report to w, and returns the error that ends the command.
func (r *Import) Conclude(w *output.Writer, err error) error {
	switch {
	case err != nil || !r.Complete:
		r.ExitCode = exit.Failed
	case r.GivenUp > 0 || r.Arrival != nil && r.Arrival.Problem != "":
		r.ExitCode = exit.Parts
	case r.Failed > 0:
		r.ExitCode = exit.Documents
	}
	r.cause = err
	if r.Problems == nil {
		r.Problems = []importer.Problem{}
	}
	return Print(w, r, r.ExitCode, err)
}

// hasStarted reports whether anything was done.
func (r *Import) hasStarted() bool { return r.Files > 0 || r.Windows > 0 }

// WriteText prints the documents of the import, and what an operator has to look at.
func (r *Import) WriteText(w io.Writer) {
	progress.Fprintf(w, "%s: %s, %s of %s in %s\n", r.Source, progress.Plural(int64(r.Files), "file"), progress.Bytes(r.FileBytes), progress.Bytes(r.Size), progress.Plural(r.Windows, "window"))
	progress.Fprintf(w, "documents %d: indexed %d, kept %d, failed %d, filtered %d; %s\n", r.Documents, r.Indexed, r.Kept, r.Failed, r.Filtered, progress.Bytes(r.Bytes))
	for _, p := range r.Problems {
		fmt.Fprintf(w, "given up: %s, bytes %d to %d: %s\n", p.File, p.From, p.To, p.Reason)
	}
	if r.Redriven > 0 {
		progress.Fprintf(w, "%d documents did not arrive when they were sent; rfsd redrive has delivered %d of them\n", r.Failed+r.Redriven, r.Redriven)
	}
	if r.Failed > 0 {
		progress.Fprintf(w, "%d documents did not arrive; each process keeps its own with their reasons (this one in %s)\n", r.Failed, r.FailedDir)
		Classes(w, r.Failures)
	}
	if a := r.Arrival; a != nil && cmp.Or(a.Problem, a.Note) != "" {
		fmt.Fprintln(w, cmp.Or(a.Problem, a.Note))
	}
	switch {
	case !r.Complete && errors.Is(r.cause, fault.ErrConfig):
		fmt.Fprintln(w, "not complete: remove the cause of the error, then run the same command again")
	case !r.Complete:
		fmt.Fprintln(w, "not complete: the same command continues")
		if r.OwnDocuments > r.Documents {
			progress.Fprintf(w, "the numbers above are recorded progress; %d documents were read by this process, and those that are not recorded are sent again\n", r.OwnDocuments)
		}
	case r.OwnWindows == 0:
		fmt.Fprintln(w, "nothing was left to do for this process; a new --session-name starts a new migration")
	}
	progress.Fprintf(w, "%.1f s, %s by this process\n", r.Seconds, progress.Plural(r.OwnWindows, "window"))
}
