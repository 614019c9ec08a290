package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/importer"
	"github.com/rfsd/rfsd/rfs/progress"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/terminal"
)

const importHelp = `Brings NDJSON files (pairs of action and source line, as --export-dir writes them and the bulk interface takes them; plain, .gz or
   .zst) from a directory or a bucket into a cluster. Start the same command on as many machines as you like, each of which sees
   the same files: one of them cuts the files into windows, all of them work, any of them may die. The same command
   continues where it was; documents are overwritten by id, never doubled. Files must not change meanwhile.

   Bounds: requests under way (--max-connections) × their size (--documents-size-per-bulk-request), one body more per slot,
   and per slot 256 KiB or twice the longest line (at most 512 MiB), with zstd up to 128 MiB for its window; nothing is unpacked to disk.
   At most 1048576 files. An uncompressed file is cut into windows, a compressed file is one window.

   rfsd run --from … does the same as a service, with workers that are kept running.

   Exit codes: 0 every document arrived; 6 complete, but documents were refused or cannot be read (the failed-document file names
   them with file and offset); 7 complete, but windows were given up (a damaged file); 1 usage, configuration, source or
   target, or not complete. 7 wins over 6.`

const (
	importSource = "Files"
	importWork   = "Windows"
)

// importOwnFlags are those that a migration does not have.
func importOwnFlags() []cli.Flag {
	return []cli.Flag{
		str(importSource, "from", "", "NDJSON files to import instead of a snapshot, where they are: file:///path, a path, or s3://bucket/prefix"),
		yes(importWork, "create-indices", "create missing indices with the target's defaults and templates (otherwise a missing index ends the import)"),
		num(importWork, "window-size", importer.DefaultWindow, "bytes of a window of an uncompressed file"),
		str(importWork, "window-lease", "PT1M", "how long a window is claimed; it is renewed while its worker lives"),
		num(importWork, "max-attempts", importer.DefaultMaxAttempts, "attempts in a row that end without progress before a window is given up"),
	}
}

// importFlags are all that an import has.
func importFlags() []cli.Flag {
	flags := append(importOwnFlags(), only(sourceFlags(), "s3-region", "s3-endpoint", "s3-path-style", "s3-role-arn", "s3-requester-pays", "allow-partial")...)
	flags = append(flags, clusterFlags(targetFlags, "target", "URL of the target cluster")...)
	flags = append(flags, only(destinationFlags(), "ignore-disks", "run-pipelines", "disable-compression")...)
	flags = append(flags, only(selectionFlags(), "include-system", "emit-doc-type")...)
	flags = append(flags, only(workFlags(), "slots", "documents-per-bulk-request", "documents-size-per-bulk-request", "max-connections",
		"max-rate", "failed-documents", "failed-documents-shared", "max-failed-documents", "unavailable-timeout", "output", "log-level")...)
	return append(flags, except(coordinationFlags(), "initial-lease-duration", "clock-skew-tolerance")...)
}

// only keeps the flags of these names.
func only(flags []cli.Flag, names ...string) []cli.Flag {
	return slices.DeleteFunc(flags, func(f cli.Flag) bool { return !slices.Contains(names, f.Names()[0]) })
}

// except leaves out the flags of these names.
func except(flags []cli.Flag, names ...string) []cli.Flag {
	return slices.DeleteFunc(flags, func(f cli.Flag) bool { return slices.Contains(names, f.Names()[0]) })
}

func importCommand() *cli.Command {
	return &cli.Command{
		Name:        "import",
		Usage:       "bring NDJSON files, such as those of an export, into a cluster; any number of processes share the work",
		Description: importHelp,
		Flags:       append(importFlags(), linkFlags()...),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("unexpected argument %q: every option begins with --", c.Args().First())
			}
			if c.IsSet("status-fd") || c.IsSet("parent-fd") {
				return importUnder(c)
			}
			o, err := parseImport(c)
			if err != nil {
				return err
			}
			return runImport(c.Context, o)
		},
	}
}

// importOptions are the flags of an import, checked.
type importOptions struct {
	options
	from          string
	createIndices bool
	types         importer.Types
	window        int64
	windowLease   time.Duration
	attempts      int
}

func parseImport(c *cli.Context) (importOptions, error) {
	o := importOptions{
		options: options{
			s3: repo.S3Options{
				Region: c.String("s3-region"), Endpoint: c.String("s3-endpoint"), PathStyle: c.Bool("s3-path-style"),
				RoleARN: c.String("s3-role-arn"), RequesterPays: c.Bool("s3-requester-pays"),
			},
			compression: "none", includeSystem: c.Bool("include-system"), allowPartial: c.Bool("allow-partial"),
			session: c.String("session-name"), coordinatorFile: c.String("coordinator-file"),
			slots: c.Int("slots"), bulkDocs: c.Int("documents-per-bulk-request"), bulkBytes: c.Int("documents-size-per-bulk-request"),
			connections: c.Int("max-connections"), failedDir: c.String("failed-documents"), failedShared: c.Bool("failed-documents-shared"), fleet: true, json: c.String("output") == "json",
			care: parseCare(c),
		},
		from: c.String("from"), createIndices: c.Bool("create-indices"), types: importer.Types(strings.ToUpper(c.String("emit-doc-type"))),
		window: int64(c.Int("window-size")), attempts: c.Int("max-attempts"),
	}
	switch {
	case o.from == "":
		return o, usage("--from is missing: where are the files?")
	case c.String("target-host") == "":
		return o, usage("--target-host is missing: where do the documents go?")
	}
	if err := o.checkDestination(c); err != nil {
		return o, err
	}
	if err := o.checkBounds(c); err != nil {
		return o, err
	}
	if err := o.checkSink(o.from); err != nil {
		return o, err
	}
	return o, o.checkWindows(c)
}

func (o *importOptions) checkWindows(c *cli.Context) error {
	var err error
	if o.windowLease, err = parseDuration(c.String("window-lease")); err != nil {
		return usage("--window-lease: %w", err)
	}
	switch o.types {
	case importer.RefuseTypes, importer.EmitTypes, importer.DropTypes:
	default:
		return usage("--emit-doc-type %q is not AUTO, ON or OFF", o.types)
	}
	switch {
	case o.windowLease < 2*time.Second || o.windowLease > time.Hour:
		return usage("--window-lease %v is not between 2s and 1h", o.windowLease)
	case o.window < 1<<10 || o.window > 1<<40:
		return usage("--window-size %d is not between %d and %d", o.window, 1<<10, 1<<40)
	case o.attempts < 1 || o.attempts > 1000:
		return usage("--max-attempts %d is not between 1 and 1000", o.attempts)
	}
	return nil
}

// runImport takes part in an import and reports it.
func runImport(ctx context.Context, o importOptions) error {
	log := newLogger(o.options)
	o.warnOfRisks(log)
	begin := time.Now()
	h, err := openImport(ctx, o, log, newInstruments(o.options))
	if err != nil {
		return err
	}
	stopProgress := showProgress(importProgress(h.Import), log)
	status, err := h.Run(ctx)
	stopProgress()
	r := &importReport{Status: status, Source: h.Source.URI(), Session: o.session, Seconds: time.Since(begin).Seconds(), FailedDir: o.failedDir}
	own := h.Own()
	r.OwnDocuments, r.OwnWindows = own.Documents, own.Windows
	return r.conclude(o, errors.Join(err, h.close()))
}

// importProgress says what this process does, and how far all of them are.
func importProgress(m *importer.Import) func(elapsed float64) string {
	return func(elapsed float64) string {
		own, all := m.Own(), m.Seen()
		s := rates(own.Documents, own.Bytes, elapsed)
		if all.Size > 0 {
			s += fmt.Sprintf("; all nodes: %.1f %%", 100*float64(all.FileBytes)/float64(all.Size))
		}
		return s + failures(all.Failed)
	}
}

// importReport is the end of a run as a script reads it. The numbers are those of all processes
// together, but for the own ones.
type importReport struct {
	Source  string `json:"source"`
	Session string `json:"session"`
	importer.Status
	OwnDocuments int64   `json:"own_documents"` // read by this process, also in windows that it lost
	OwnWindows   int64   `json:"own_windows"`
	Seconds      float64 `json:"seconds"`
	ExitCode     int     `json:"exit_code"`
	Error        string  `json:"error,omitempty"`
	FailedDir    string  `json:"-"`
	cause        error   // of an end before completion
}

// conclude prints the report and decides the exit code.
func (r *importReport) conclude(o importOptions, err error) error {
	switch {
	case err != nil || !r.Complete:
		r.ExitCode = exitFailed
	case r.GivenUp > 0:
		r.ExitCode = exitDamaged
	case r.Failed > 0:
		r.ExitCode = exitRefused
	}
	if r.cause = err; err != nil {
		r.Error = err.Error()
	}
	if r.Problems == nil {
		r.Problems = []importer.Problem{}
	}
	if o.json {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		err = errors.Join(err, enc.Encode(r))
	} else {
		r.writeText(terminal.NewWriter(os.Stdout))
	}
	if r.ExitCode == exitOK {
		return err
	}
	return &codedError{r.ExitCode, err}
}

func (r *importReport) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %d files, %d of %d bytes in %d windows\n", r.Source, r.Files, r.FileBytes, r.Size, r.Windows)
	fmt.Fprintf(w, "documents %d: indexed %d, failed %d, filtered %d; %s\n", r.Documents, r.Indexed, r.Failed, r.Filtered, progress.Bytes(r.Bytes))
	for _, p := range r.Problems {
		fmt.Fprintf(w, "given up: %s, bytes %d to %d: %s\n", p.File, p.From, p.To, p.Reason)
	}
	if r.Failed > 0 {
		fmt.Fprintf(w, "%d documents did not arrive; each process keeps its own with their reasons (this one in %s)\n", r.Failed, r.FailedDir)
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
		fmt.Fprintln(w, "nothing was left to do for this process; a new --session-name begins afresh")
	}
	fmt.Fprintf(w, "%.1f s, %d windows by this process\n", r.Seconds, r.OwnWindows)
}
