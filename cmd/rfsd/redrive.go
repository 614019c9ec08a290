package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

const redriveHelp = `Sends the documents in --failed-documents again, as they were sent, after the cause was fixed.
Documents that arrive are removed from the files; those that fail again stay, with the new
reason. A file that a running process writes is not touched. The process may be killed at any
time: a file is replaced only after the outcome of its documents is known. Documents with
existing ids follow --existing-documents of the session. Documents that have no source, or whose
source cannot be sent, stay and count as failed. So do those for an index that the session did
not create, such as an existing index, unless --coordinator-file holds the session: the
report names the command line that sends them, with --index-allowlist.

Sources that the files do not hold (--failed-documents-content), and sources of documents that a
fleet has recorded (--from-control-index), are read again: from the snapshot with --repo-uri, and
--rules if the migration had rules; from the files of an import with --from. For a cluster that
is followed, --repo-uri is required once a later round has deleted documents: these are not sent.`

func redriveCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "redrive", Usage: "send failed documents again, after the cause was fixed", Description: redriveHelp,
	}, func(ctx context.Context, call *config.Call, c config.Redrive) error {
		o, err := wiring.ForRedrive(version, c)
		if err != nil {
			return err
		}
		return runRedrive(ctx, o, call.With, call.Out)
	})
}

// runRedrive sends failed documents again and reports it. again returns the command line with more options.
func runRedrive(ctx context.Context, o wiring.Options, again func(more ...string) string, out *output.Writer) error {
	begin := time.Now()
	log, screen := report.Log(o.Log)
	o.WarnOfRisks(log)
	r, err := wiring.OpenRedrive(ctx, o, again, log)
	if err != nil {
		return err
	}
	stopProgress := report.Progress(func(elapsed float64) string {
		return fmt.Sprintf("%s documents, %s documents/s", progress.Count(r.Sent.Load()), progress.Count(int64(float64(r.Sent.Load())/elapsed))) + report.Failures(r.Failed.Load())
	}, log, screen)
	done, err := r.Run(ctx)
	stopProgress()
	full := report.Redrive{Place: o.RedrivePlace(), Report: done, Seconds: time.Since(begin).Seconds()}
	if err == nil {
		full.PoliciesWait, err = r.State.PoliciesWaiting(ctx)
	}
	return full.Conclude(out, errors.Join(err, r.Close()))
}
