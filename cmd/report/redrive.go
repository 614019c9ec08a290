package report

import (
	"cmp"
	"fmt"
	"io"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
)

// Redrive is the report of rfsd redrive.
type Redrive struct {
	Place string `json:"failed_documents"`
	redrive.Report
	// PoliciesWait are indices of the snapshot that have no policy yet (--include attachments), because documents were missing.
	PoliciesWait []string `json:"policies_wait,omitempty"`

	Seconds  float64   `json:"seconds"`
	ExitCode exit.Code `json:"-"`
}

// Conclude decides the exit code, prints the report to w, and returns the error that ends the command.
func (r *Redrive) Conclude(w *output.Writer, err error) error {
	switch {
	case err != nil || !r.Complete:
		r.ExitCode = exit.Failed
	case r.Failed > 0:
		r.ExitCode = exit.Documents
	}
	return Print(w, r, r.ExitCode, err)
}

// WriteText prints the numbers of sent and remaining documents.
func (r *Redrive) WriteText(w io.Writer) {
	progress.Fprintf(w, "%s: %s\n", r.Place, progress.Plural(int64(r.Files), "file"))
	progress.Fprintf(w, "documents %d: indexed %d, failed again %d, filtered %d\n", r.Documents, r.Indexed, r.Failed, r.Filtered)
	if r.Deleted > 0 {
		progress.Fprintf(w, "%d were not sent, because later rounds have deleted them, and are removed from the files\n", r.Deleted)
	}
	if r.Kept > 0 {
		progress.Fprintf(w, "%d were not sent in place of documents that the target has, and are removed from the files\n", r.Kept)
	}
	if r.Duplicates > 0 {
		progress.Fprintf(w, "%d further lines of the same documents were removed\n", r.Duplicates)
	}
	for _, c := range r.Classes {
		progress.Fprintf(w, "  %d × %s: %s: %s\n    remedy: %s\n", c.Count, cmp.Or(terminal.Clean(c.Index), "-"), c.Class, terminal.Clean(c.Example), terminal.Clean(c.Remedy))
	}
	for _, name := range r.InUse {
		fmt.Fprintf(w, "%s was not touched: a running process writes it\n", name)
	}
	switch {
	case r.Remaining > 0:
		progress.Fprintf(w, "not complete: %d documents wait in the files; the same command continues\n", r.Remaining)
	case !r.Complete:
		fmt.Fprintln(w, "not complete: the same command continues")
	case r.Documents == 0:
		fmt.Fprintln(w, "there was nothing to send")
	}
	if len(r.PoliciesWait) > 0 {
		progress.Fprintf(w, "without a policy until all their documents are there; then the same rfsd migrate or worker attaches it: %s\n", terminal.Clean(fault.Names(r.PoliciesWait, 10)))
	}
	fmt.Fprintf(w, "%.1f s\n", r.Seconds)
}
