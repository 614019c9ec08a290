package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// CutoverResult is a cut-over as JSON.
type CutoverResult struct {
	Cutover progress.Cutover `json:"cutover"`
}

// Cutover prints how far a cut-over is.
func Cutover(w *output.Writer, c session.Cutover) error {
	if w.JSON {
		return w.Result(CutoverResult{progress.CutoverOf(c)})
	}
	_, err := fmt.Fprintln(terminal.NewWriter(w), CutoverText(progress.CutoverOf(c)))
	return err
}

// mostBlocks bounds the indices that are named.
const mostBlocks = 20

// CutoverText describes how far a cut-over is, in a line, or in two.
func CutoverText(c progress.Cutover) string {
	at := func(t *time.Time) string {
		if t == nil {
			return "an unknown time"
		}
		return t.Local().Format(time.DateTime)
	}
	outage := seconds(c.OutageSeconds).Round(100 * time.Millisecond)
	switch c.State {
	case "":
		return "no cut-over was ordered"
	case session.CutoverOrdered:
		return fmt.Sprintf("cut-over ordered by %s at %s: rounds run until one takes less than a quarter of the permitted outage of %s", c.Who, at(c.Ordered), seconds(c.MaxOutage))
	case session.CutoverBlocked:
		return fmt.Sprintf("cut-over: writes to the source have ended at %s; the last round is in progress%s", at(c.Blocked), blocked(c))
	case session.CutoverReturning:
		return fmt.Sprintf("cut-over: returning (%s)%s", c.Reason, blocked(c))
	case session.CutoverReturned:
		text := fmt.Sprintf("cut-over returned at %s: %s", at(c.Ended), c.Reason)
		if c.Blocked != nil {
			text += fmt.Sprintf("; writes were blocked for %s", outage)
		}
		return text
	case session.CutoverFinishing, session.CutoverDone:
		what := "the source"
		if len(c.Indices) > 0 {
			what = fault.Names(c.Moved, mostBlocks)
		}
		text := fmt.Sprintf("cut over: everything of %s had arrived %s after the end of writes, with round %d (snapshot %s)", what, outage, c.Round, c.Snapshot)
		if c.Note != "" {
			text += "; " + c.Note
		}
		text += "\npoint applications to the target"
		if len(c.Blocks) > 0 {
			text += "; the source keeps its " + strings.TrimPrefix(blocked(c), "; ")
		}
		switch {
		case len(c.Indices) > 0:
			text += "\nthe other indices are followed; index.gc_deletes stays raised until the last cut-over, or rfsd follow --finish"
		case c.State == session.CutoverFinishing:
			text += "\nthe process that follows restores the settings of the target when no request of the last round can arrive any more, within two minutes"
		}
		return text
	}
	return string(c.State)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// blocked names the indices with write blocks of a session.
func blocked(c progress.Cutover) string {
	if len(c.Blocks) == 0 {
		return ""
	}
	return "; write blocks on " + fault.Names(c.Blocks, mostBlocks)
}
