package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

const importHelp = `Imports NDJSON files (pairs of action and source line, as --export-dir writes them and the bulk
API takes them; plain, .gz or .zst) from a directory or a bucket into a cluster. Start the same
command on any number of machines that see the same files: one of them divides the files into
windows, all of them work, and any of them may die. The same command continues where it stopped;
documents are overwritten by id, never duplicated. Files must not change meanwhile.

Memory: requests under way (--max-connections) times their size
(--documents-size-per-bulk-request), one more request body per slot, and per slot 256 KiB or
twice the longest line (at most --max-document-size); with zstd up to 8 MiB more for its window,
and beyond that up to 128 MiB for all slots together. Nothing is unpacked to disk. At most
1048576 files. An uncompressed file is divided into windows, a compressed file is one window.

rfsd run --from … does the same as a service, with workers that are kept running.

The failed documents (--failed-documents) list what was rejected or cannot be read, with file and
offset (exit code 6). Abandoned windows of a damaged file, and documents that the target
does not hold at the end, exit with 7, which takes precedence over 6.`

func importCommand() *cli.Command {
	return config.Raw[config.ImportCommand](cli.Command{
		Name:        "import",
		Usage:       "import NDJSON files, such as those of an export, into a cluster; any number of processes share the work",
		Description: importHelp,
	}, func(ctx context.Context, call *config.Call) error {
		return runOrWork(ctx, call, decodeImport, runImport)
	})
}

// importOptions are what an import does, made of its settings.
type importOptions struct {
	options
	types   importer.Types
	windows config.Windows
}

// decodeImport makes the options of an import of given settings.
func decodeImport(values config.Values) (importOptions, error) {
	var i config.Import
	if err := config.Decode(values, &i); err != nil {
		return importOptions{}, err
	}
	o := importOptions{
		options: options{s3: i.S3.Options(), compression: string(export.None), fleet: true, from: i.Files.From},
		types:   importer.Types(i.Transfer.Types.Emit), windows: i.Windows,
	}
	return o, o.transfer(i.Transfer)
}

// runImport takes part in an import and reports it.
func runImport(ctx context.Context, o importOptions) error {
	log, screen := newLogger(o.options)
	log, lines := keepLines(log, o.logLevel)
	o.warnOfRisks(log)
	begin := time.Now()
	h, err := openImport(ctx, o, log, newResources(o.options))
	if err != nil {
		return err
	}
	stopShowing := show(ctx, shownImport(o, h, lines, log), log, screen)
	done, err := h.Run(ctx)
	stopShowing()
	r := &importReport{Status: done, Source: h.Source.URI(), Session: o.session, Seconds: time.Since(begin).Seconds(), FailedDir: o.failedDir}
	if err == nil {
		r.Redriven, err = deliveredLater(ctx, h.kept, r.Failed)
		r.Failed, r.Indexed = r.Failed-r.Redriven, r.Indexed+r.Redriven
	}
	r.Failures = whatFailed(ctx, h.kept, h.Failed, r.Failed, log)
	own := h.Own()
	r.OwnDocuments, r.OwnWindows = own.Documents, own.Windows
	return r.conclude(o, errors.Join(err, h.close()))
}

// importReport is the end of a run as a script reads it. The numbers are those of all processes
// together, but for the own ones.
type importReport struct {
	Source  string `json:"source"`
	Session string `json:"session"`
	importer.Status
	OwnDocuments int64                 `json:"own_documents"` // read by this process, also in windows that it lost
	OwnWindows   int64                 `json:"own_windows"`
	Redriven     int64                 `json:"redriven,omitempty"` // of the indexed documents: they failed first, and rfsd redrive has delivered them
	Seconds      float64               `json:"seconds"`
	ExitCode     exit.Code             `json:"exit_code"`
	Error        string                `json:"error,omitempty"`
	FailedDir    string                `json:"-"`
	Failures     []status.RefusedGroup `json:"failures,omitempty"` // classes of the documents that failed, as they failed first
	cause        error                 // of an end before completion
}

// conclude prints the report and decides the exit code.
func (r *importReport) conclude(o importOptions, err error) error {
	switch {
	case err != nil || !r.Complete:
		r.ExitCode = exit.Failed
	case r.GivenUp > 0 || r.Arrival != nil && r.Arrival.Problem != "":
		r.ExitCode = exit.Parts
	case r.Failed > 0:
		r.ExitCode = exit.Documents
	}
	if r.cause = err; err != nil {
		r.Error = err.Error()
	}
	if r.Problems == nil {
		r.Problems = []importer.Problem{}
	}
	return printed(os.Stdout, r, o.json, r.ExitCode, err)
}

func (r *importReport) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %d files, %d of %d bytes in %d windows\n", r.Source, r.Files, r.FileBytes, r.Size, r.Windows)
	fmt.Fprintf(w, "documents %d: indexed %d, kept %d, failed %d, filtered %d; %s\n", r.Documents, r.Indexed, r.Kept, r.Failed, r.Filtered, progress.Bytes(r.Bytes))
	for _, p := range r.Problems {
		fmt.Fprintf(w, "given up: %s, bytes %d to %d: %s\n", p.File, p.From, p.To, p.Reason)
	}
	if r.Redriven > 0 {
		fmt.Fprintf(w, "%d documents did not arrive when they were sent; rfsd redrive has delivered %d of them\n", r.Failed+r.Redriven, r.Redriven)
	}
	if r.Failed > 0 {
		fmt.Fprintf(w, "%d documents did not arrive; each process keeps its own with their reasons (this one in %s)\n", r.Failed, r.FailedDir)
		writeClasses(w, r.Failures)
	}
	if a := r.Arrival; a != nil && cmp.Or(a.Problem, a.Note) != "" {
		fmt.Fprintln(w, cmp.Or(a.Problem, a.Note))
	}
	switch {
	case !r.Complete && errors.Is(r.cause, fault.ErrConfig):
		fmt.Fprintln(w, "not complete: see the error; the same command ends with it again until its cause is removed")
	case !r.Complete:
		fmt.Fprintln(w, "not complete: the same command continues")
		if r.OwnDocuments > r.Documents {
			fmt.Fprintf(w, "the numbers above are recorded progress; %d documents were read by this process, and those that are not recorded are sent again\n", r.OwnDocuments)
		}
	case r.OwnWindows == 0:
		fmt.Fprintln(w, "nothing was left to do for this process; a new --session-name starts a new migration")
	}
	fmt.Fprintf(w, "%.1f s, %d windows by this process\n", r.Seconds, r.OwnWindows)
}
