package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// CutoverResult is a cut-over as JSON.
type CutoverResult struct {
	Cutover CutoverState `json:"cutover"`
}

// CutoverState is the record of a cut-over, with times.
type CutoverState struct {
	State         session.CutoverState `json:"state"` // "": nothing was ordered
	Block         bool                 `json:"block_source_writes"`
	MaxOutage     float64              `json:"max_outage_seconds"`
	AcceptFailed  bool                 `json:"accept_failed"`
	Indices       []string             `json:"indices,omitempty"` // those that were chosen
	Who           string               `json:"ordered_by"`
	Ordered       *time.Time           `json:"ordered,omitempty"`
	Blocked       *time.Time           `json:"blocked,omitempty"` // when writes ended
	Arrived       *time.Time           `json:"arrived,omitempty"`
	Ended         *time.Time           `json:"ended,omitempty"`
	OutageSeconds float64              `json:"outage_seconds"`
	Round         int                  `json:"round,omitempty"` // the last one
	Snapshot      string               `json:"snapshot,omitempty"`
	Blocks        []string             `json:"blocks,omitempty"` // indices of the source with a write block of the session
	Moved         []string             `json:"moved,omitempty"`
	Reason        string               `json:"reason,omitempty"` // why it returned
	Note          string               `json:"note,omitempty"`
}

func cutoverState(c session.Cutover) CutoverState {
	at := func(ms int64) *time.Time {
		if ms == 0 {
			return nil
		}
		t := time.UnixMilli(ms).UTC()
		return &t
	}
	return CutoverState{
		State: c.State, Block: c.Block, MaxOutage: float64(c.MaxOutage) / 1000, AcceptFailed: c.AcceptFailed, Indices: c.Indices, Who: c.Who,
		Ordered: at(c.Ordered), Blocked: at(c.Blocked), Arrived: at(c.Arrived), Ended: at(c.Ended), OutageSeconds: c.Outage().Seconds(),
		Round: c.Round, Snapshot: c.Snapshot, Blocks: c.Blocks, Moved: c.Moved, Reason: c.Reason, Note: c.Note,
	}
}

// Cutover prints how far a cut-over is.
func Cutover(w *output.Writer, c session.Cutover) error {
	if w.JSON {
		return w.Result(CutoverResult{cutoverState(c)})
	}
	_, err := fmt.Fprintln(terminal.NewWriter(w), CutoverText(c))
	return err
}

// mostBlocks bounds the indices that are named.
const mostBlocks = 20

// CutoverText describes how far a cut-over is, in a line, or in two.
func CutoverText(c session.Cutover) string {
	at := func(ms int64) string { return time.UnixMilli(ms).Local().Format(time.DateTime) }
	outage := c.Outage().Round(100 * time.Millisecond)
	switch c.State {
	case "":
		return "no cut-over was ordered"
	case session.CutoverOrdered:
		return fmt.Sprintf("cut-over ordered by %s at %s: rounds run until one takes less than a quarter of the permitted outage of %s", c.Who, at(c.Ordered), time.Duration(c.MaxOutage)*time.Millisecond)
	case session.CutoverBlocked:
		return fmt.Sprintf("cut-over: writes to the source have ended at %s; the last round is in progress%s", at(c.Blocked), blocked(c))
	case session.CutoverReturning:
		return fmt.Sprintf("cut-over: returning (%s)%s", c.Reason, blocked(c))
	case session.CutoverReturned:
		text := fmt.Sprintf("cut-over returned at %s: %s", at(c.Ended), c.Reason)
		if c.Blocked != 0 {
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
			text += "\nrfsd follow restores the settings of the target when no request of the last round can arrive any more, within two minutes"
		}
		return text
	}
	return string(c.State)
}

// blocked names the indices with write blocks of a session.
func blocked(c session.Cutover) string {
	if len(c.Blocks) == 0 {
		return ""
	}
	return "; write blocks on " + fault.Names(c.Blocks, mostBlocks)
}
