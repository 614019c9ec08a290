package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

const sessionsHelp = `Lists the sessions that keep their state in a target, a coordinator cluster or a bucket: name,
snapshot, state, documents, and when a worker last did something. A session that cannot be read
is listed with the reason. A coordinator file holds one session.`

func sessionsCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "sessions", Usage: "list the sessions of a target, a coordinator cluster or a bucket", Description: sessionsHelp,
	}, showSessions)
}

// listedSession is one session of a store.
type listedSession struct {
	Session    string     `json:"session"` // "" is the common one
	Snapshot   string     `json:"snapshot,omitempty"`
	State      string     `json:"state,omitempty"` // as rfsctl status shows it
	Documents  int64      `json:"documents"`
	Failed     int64      `json:"documents_failed"`
	GivenUp    int64      `json:"given_up"`
	LastReport *time.Time `json:"last_report,omitempty"`
	Error      string     `json:"error,omitempty"` // why it cannot be read
}

func showSessions(ctx context.Context, call *config.Call, o config.Stored) error {
	if o.State.Session.Name != "" {
		return config.Usage("rfsctl sessions lists every session: leave --session-name out, or use rfsctl status --session-name %s", o.State.Session.Name)
	}
	names, err := state.Sessions(ctx, o, func(c config.Cluster, role string) (*target.Client, error) { return connect(ctx, call, c, role) })
	if err != nil {
		return err
	}
	all := make([]listedSession, 0, len(names))
	for _, name := range names {
		at := o
		at.State.Session.Name = name
		all = append(all, listSession(ctx, call, at))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if call.Out.JSON {
		return call.Out.Result(all)
	}
	return printSessions(terminal.NewWriter(call.Out), all)
}

// listSession reads one session.
func listSession(ctx context.Context, call *config.Call, at config.Stored) listedSession {
	x := listedSession{Session: at.State.Session.Name}
	s, err := openCoordination(ctx, call, at)
	if err != nil {
		x.Error = fault.Text(err)
		return x
	}
	m, _, err := s.read(ctx)
	if err = errors.Join(err, s.close()); err != nil {
		x.Error = fault.Text(err)
		return x
	}
	measure := progress.Measure{Lag: progress.RecordLag}
	now := timing.SystemClock().Read().Mono
	measure.Add(now, m.Totals.Work())
	v := measure.View(now, m)
	x.Snapshot, x.State, x.Documents, x.Failed, x.GivenUp, x.LastReport = m.Snapshot, v.State, v.Documents, v.Failed, v.GivenUp, m.LastReport
	return x
}

func printSessions(w io.Writer, all []listedSession) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no session has its state there")
		return err
	}
	slices.SortStableFunc(all, func(a, b listedSession) int { return cmp.Compare(a.Session, b.Session) })
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "SESSION\tSNAPSHOT\tSTATE\tDOCUMENTS\tFAILED\tGIVEN UP\tLAST REPORT")
	for _, x := range all {
		last := "-"
		if x.LastReport != nil {
			last = x.LastReport.Local().Format(time.DateTime)
		}
		if x.Error != "" {
			x.State = "cannot be read: " + terminal.Clean(x.Error)
		}
		progress.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", orDash(x.Session), orDash(terminal.Clean(x.Snapshot)), x.State, x.Documents, x.Failed, x.GivenUp, last)
	}
	return t.Flush()
}
