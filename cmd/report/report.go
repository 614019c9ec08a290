// Package report renders what commands have done: as text for an operator and as JSON for a script. A report decides the exit code of
// its command.
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
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// Rates returns numbers of documents and bytes, and both per second of the elapsed seconds.
func Rates(documents, bytes int64, elapsed float64) string {
	return fmt.Sprintf("%s documents, %s, %s documents/s, %s/s", progress.Count(documents), progress.Bytes(bytes),
		progress.Count(int64(float64(documents)/elapsed)), progress.Bytes(int64(float64(bytes)/elapsed)))
}

// Failures returns the number of failed documents as the end of a list, "" for none.
func Failures(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %s failed", progress.Count(n))
}

// Print writes a report and returns the error that ends the command: err with the exit code.
func Print(w *output.Writer, r interface{ WriteText(w io.Writer) }, code exit.Code, err error) error {
	switch started, ok := r.(interface{ hasStarted() bool }); {
	case w.JSON:
		err = errors.Join(err, w.Result(r))
	case ok && !started.hasStarted() && errors.Is(err, fault.ErrConfig): // the error suffices
	default:
		r.WriteText(terminal.NewWriter(w))
	}
	if code == exit.OK {
		return err
	}
	return exit.With(code, err)
}

// Classes prints the largest classes of failed documents with their remedies.
func Classes(w io.Writer, groups []status.RefusedGroup) {
	const most = 20
	for _, g := range groups[:min(len(groups), most)] {
		if g.Class == "" {
			progress.Fprintf(w, "  %d × of further indices and classes\n", g.Count)
			continue
		}
		progress.Fprintf(w, "  %d × %s: %s (%s)\n    remedy: %s\n", g.Count, cmp.Or(terminal.Clean(g.Index), "-"), g.Class, terminal.Clean(g.Reason), terminal.Clean(g.Remedy))
	}
	if n := len(groups) - most; n > 0 {
		progress.Fprintf(w, "  %d further indices and classes: rfsctl failures lists them\n", n)
	}
}
