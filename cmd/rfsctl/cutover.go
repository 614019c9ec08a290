package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

const cutoverHelp = `Orders the process that follows the source (rfsd follow, or a node of rfsd run --follow) to cut
over to the target, and waits for the end. Rounds run until one takes less than a quarter of
--max-outage. Then writes to the source are blocked (with --block-source-writes, which that
process has to permit by the option of that name; without it, end all writes first), a last round
arrives, and every shard of the source is compared with the last snapshot. Then no further round
can start, and applications can be pointed to the target. Two minutes later that process restores
the target's settings and ends.

Until everything has arrived, each failure leads back: the write blocks are removed, and the
following continues. So do --abort, rfsctl pause, and the end of --max-outage. After a kill the
next process with the same options, or another node, completes the cut-over, or returns from it.

--indices cuts over some indices; the others are followed until the last cut-over.

--dry-run shows how long the last round took and what prevents a cut-over.`

func cutoverCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "cutover", Usage: "cut over from a cluster that is followed to its target", Description: cutoverHelp,
	}, cutOver)
}

func cutOver(ctx context.Context, call *config.Call, o config.Cutover) error {
	s, err := openCoordination(ctx, call, o.Stored)
	if err != nil {
		return err
	}
	return errors.Join(cutOverIn(ctx, call, o, s), s.close())
}

func cutOverIn(ctx context.Context, call *config.Call, o config.Cutover, s *coordination) error {
	records := session.CutoversOf(s.Coordinator)
	var is session.Cutover
	var err error
	switch x := o.Cutting; {
	case o.Dry.Run:
		rounds, err := session.RoundsOf(s.Coordinator).Read(ctx)
		if err != nil {
			return err
		}
		now, _, err := s.Leases().Now(ctx)
		if err != nil {
			return err
		}
		return expect(call.Out, o, rounds, now)
	case x.Abort:
		is, err = records.Return(ctx, "aborted by "+author())
	default:
		if i := paused(ctx, s); i != "" {
			return fmt.Errorf("%s, so that no cut-over would start: give the order after rfsctl resume: %w", i, fault.ErrConfig)
		}
		is, err = records.Order(ctx, session.CutoverOptions{Block: o.Blocks.Block, MaxOutage: x.MaxOutage.Milliseconds(), AcceptFailed: x.Accept, Indices: x.Group.List.Strings()}, author())
	}
	if err != nil {
		return err
	}
	if !o.Cutting.NoWait {
		if is, err = awaitCutover(ctx, call, s, is); err != nil {
			return err
		}
	}
	if err := report.Cutover(call.Out, is); err != nil {
		return err
	}
	switch {
	case is.Open() && is.State != session.CutoverFinishing:
		return exit.With(exit.NotYet, errors.New("the cut-over is in progress; rfsctl status shows how far it is"))
	case is.State == session.CutoverReturned && !o.Cutting.Abort:
		if i := paused(ctx, s); i != "" {
			return fmt.Errorf("the cut-over has returned, and %s: rfsctl resume continues the following; then order the cut-over again", i)
		}
		return errors.New("the cut-over has returned; following continues")
	}
	return nil
}

// paused describes a pause or a drain in force; "" without one, and while the store is silent.
func paused(ctx context.Context, s *coordination) string {
	i, err := session.OrdersOf(s.Coordinator).Intent(ctx)
	if err != nil || i.State == session.Run {
		return ""
	}
	return fmt.Sprintf("the session is held (%s by %s)", i.State, i.Who)
}

// author returns the name under which orders are recorded.
func author() string {
	host, err := os.Hostname()
	if err != nil {
		return "rfsctl"
	}
	return "rfsctl on " + host
}

const (
	// pollCutover is the time between two looks at a cut-over.
	pollCutover = time.Second
	// idleAfter is the time after which a hint names what may be missing.
	idleAfter = 20 * time.Second
)

// awaitCutover blocks until the cut-over was has ended, and shows its steps meanwhile. When ctx ends, the order stays in force.
func awaitCutover(ctx context.Context, call *config.Call, s *coordination, was session.Cutover) (is session.Cutover, err error) {
	begin, hinted, last := time.Now(), false, session.CutoverState("")
	for {
		is, _, err = session.CutoversOf(s.Coordinator).Read(ctx)
		switch {
		case ctx.Err() != nil:
			return is, fmt.Errorf("the order stays in force; rfsctl status shows how far it is, and rfsctl cutover --abort withdraws it: %w", ctx.Err())
		case err != nil && !errors.Is(err, fault.ErrUnavailable):
			return is, err
		case err != nil: // the store may answer again
		case is.State == "":
			return is, fmt.Errorf("the order is gone: the records of the session were removed: %w", session.ErrNotOrdered)
		case is.Ordered != was.Ordered:
			return is, fmt.Errorf("this cut-over was withdrawn, and another one was ordered by %s at %s: rfsctl status shows it", is.Who, time.UnixMilli(is.Ordered).Format(time.DateTime))
		case !is.Open() || is.State == session.CutoverFinishing: // applications need not wait for the restored settings
			return is, nil
		case is.State != last && !call.Out.JSON:
			fmt.Fprintln(terminal.NewWriter(call.Err), report.CutoverText(progress.CutoverOf(is)))
		}
		if is.State != last {
			begin, last = time.Now(), is.State
		}
		if !hinted && err == nil && time.Since(begin) > idleAfter && is.State != session.CutoverBlocked {
			hinted = true
			hint := "no step was taken for a while: is rfsd follow, or rfsd run --follow, running with the options of the session? A round in progress ends first"
			if i := paused(ctx, s); i != "" && is.State == session.CutoverOrdered {
				hint = i + ", and the cut-over waits for rfsctl resume; rfsctl cutover --abort withdraws it"
			}
			fmt.Fprintln(call.Err, hint)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollCutover):
		}
	}
}

// expected describes the cut-over that would follow.
type expected struct {
	Round         int     `json:"round"` // the last that has arrived
	Age           float64 `json:"age_seconds"`
	Took          float64 `json:"round_seconds"` // with its snapshot
	Documents     int64   `json:"documents"`
	Bytes         int64   `json:"bytes"`
	Failed        int64   `json:"failed"` // in all rounds
	OutageSeconds float64 `json:"expected_outage_seconds"`
	Prevented     string  `json:"prevented,omitempty"`
}

// expect shows how long a cut-over would take: as long as the last round. Errors: fault.ErrConfig when something prevents it.
func expect(w *output.Writer, o config.Cutover, all session.Followed, now time.Time) error {
	var x expected
	x.Failed = all.Failed()
	last, arrived := all.Arrived()
	switch {
	case all.Finished != 0:
		x.Prevented = "the following was finished"
	case !arrived:
		x.Prevented = "no round has arrived"
	case x.Failed > 0 && !o.Cutting.Accept:
		x.Prevented = progress.Sprintf("%d documents failed in the rounds so far: deliver them with rfsd redrive, and give --accept-failed", x.Failed)
	}
	if arrived {
		x.Round, x.Documents, x.Bytes = last.Number, last.Inserted+last.Updated+last.Deleted, last.Bytes
		x.Age, x.Took = now.Sub(time.UnixMilli(last.Arrived)).Seconds(), float64(last.Arrived-last.Started)/1000
		x.OutageSeconds = x.Took
	}
	if w.JSON {
		if err := w.Result(x); err != nil {
			return err
		}
	} else if arrived {
		fmt.Fprintf(w, "round %d arrived %s ago, and took %s with its snapshot: %s, %s\n", x.Round, progress.Span(x.Age), progress.Span(x.Took), progress.Plural(x.Documents, "document"), progress.Bytes(x.Bytes))
		fmt.Fprintf(w, "a cut-over after a round of this size ends writes for about %s; one further round precedes it\n", progress.Span(x.OutageSeconds))
	}
	if x.Prevented != "" {
		return fmt.Errorf("a cut-over would be refused: %s: %w", x.Prevented, fault.ErrConfig)
	}
	return nil
}
