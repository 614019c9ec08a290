package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/terminal"
	"github.com/rfsd/rfsd/rfs/worker"
)

const reportHelp = `Sums up what the work items recorded: documents and bytes per index; for ended items how long their
   last lease lasted, which part of it was setup (until the first document was read) and the throughput. Documents that
   an item has from earlier leases are counted with its last one.

   ON TARGET and LUCENE are the root documents and all Lucene documents (nested ones included) that the target held when the last
   document of the index was sent; "-" before, and where it does not let them be counted.

   The suggested initial lease is 20 times the setup of the slowest tenth (then setup is about 5 % of a lease), or long
   enough that nine of ten items end within it (4/3 of their duration, at most 1 h), whichever is longer; from 1 min to 6 h.

   Refused documents that a fleet noted are summed up; rfsctl failures names each.

   With --node, or when no store is named and a node runs on this machine, the node gives its account instead: status, items by
   state, events.`

func reportCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "report", Usage: "how long the work took, and which initial lease fits it", Description: reportHelp,
	}, showReport)
}

// indexReport is the sum over the items of one index.
type indexReport struct {
	Index    string  `json:"index"`
	Items    int     `json:"items"`
	Ended    int     `json:"ended"` // done, handed off or FAILED
	Failed   int     `json:"items_failed"`
	Seconds  float64 `json:"lease_seconds"` // of the last leases of ended items
	Setup    float64 `json:"setup_seconds"`
	Rate     float64 `json:"documents_per_second"` // of one worker
	ByteRate float64 `json:"bytes_per_second"`     // of one worker
	// OnTarget is what the target held when all documents were sent; absent before, and in the total.
	OnTarget *worker.Arrival `json:"on_target,omitempty"`
	cms.Counts

	targets               []string
	timedDocs, timedBytes int64
}

// workReport is what `rfsctl report` tells. Percentiles are of ended items, in seconds.
type workReport struct {
	Indices        []indexReport `json:"indices"`
	Total          indexReport   `json:"total"`
	First          *time.Time    `json:"first_lease,omitempty"` // of the last leases of all items
	Last           *time.Time    `json:"last_end,omitempty"`
	SetupShare     float64       `json:"setup_share"` // of all lease time, 0 to 1
	SetupP50       float64       `json:"setup_p50_seconds"`
	SetupP90       float64       `json:"setup_p90_seconds"`
	DurationP50    float64       `json:"duration_p50_seconds"`
	DurationP90    float64       `json:"duration_p90_seconds"`
	SuggestedLease string        `json:"suggested_initial_lease,omitempty"` // ISO 8601; absent before an item has ended
	// Refused are the documents that a fleet noted as refused; `rfsctl failures` names each.
	Refused []refusedGroup `json:"refused,omitempty"`

	setups, durations []time.Duration
}

func (r *workReport) add(x *indexReport, it cms.Item) {
	for _, sum := range []*indexReport{x, &r.Total} {
		sum.add(it)
	}
	if it.AcquiredAt != 0 {
		if first := time.UnixMilli(it.AcquiredAt).UTC(); r.First == nil || first.Before(*r.First) {
			r.First = &first
		}
	}
	if it.Open() {
		return
	}
	if last := time.Unix(it.CompletedAt, 0).UTC(); r.Last == nil || last.After(*r.Last) {
		r.Last = &last
	}
	if d := duration(it); d > 0 {
		r.durations = append(r.durations, d)
		r.setups = append(r.setups, time.Duration(it.SetupMs)*time.Millisecond)
	}
}

func (x *indexReport) add(it cms.Item) {
	x.Items++
	x.Counts = x.Counts.Add(it.Counts)
	if it.Open() {
		return
	}
	x.Ended++
	if it.FailedItem() {
		x.Failed++
	}
	if d := duration(it); d > 0 {
		x.Seconds += d.Seconds()
		x.Setup += float64(it.SetupMs) / 1000
		x.timedDocs += it.Counts.Indexed + it.Counts.Kept + it.Counts.Failed
		x.timedBytes += it.Counts.Bytes
	}
}

// duration of the last lease of an ended item; 0 when not known. Ends are stored in
// whole seconds, rounded down.
func duration(it cms.Item) time.Duration {
	if it.Open() || it.FailedItem() || it.AcquiredAt == 0 {
		return 0
	}
	return max(time.Unix(it.CompletedAt, 0).Sub(time.UnixMilli(it.AcquiredAt)), 500*time.Millisecond)
}

func (x *indexReport) finish() {
	if x.Seconds > 0 {
		x.Rate, x.ByteRate = float64(x.timedDocs)/x.Seconds, float64(x.timedBytes)/x.Seconds
	}
}

func (r *workReport) finish(by map[string]*indexReport) {
	for _, x := range by {
		x.finish()
		r.Indices = append(r.Indices, *x)
	}
	slices.SortFunc(r.Indices, func(a, b indexReport) int { return cmp.Compare(a.Index, b.Index) })
	r.Total.finish()
	if len(r.durations) == 0 {
		return
	}
	slices.Sort(r.setups)
	slices.Sort(r.durations)
	r.SetupShare = r.Total.Setup / r.Total.Seconds
	r.SetupP50, r.SetupP90 = percentile(r.setups, 50).Seconds(), percentile(r.setups, 90).Seconds()
	r.DurationP50, r.DurationP90 = percentile(r.durations, 50).Seconds(), percentile(r.durations, 90).Seconds()
	r.SuggestedLease = isoMinutes(suggestLease(percentile(r.setups, 90), percentile(r.durations, 90)))
}

// percentile of a sorted, non-empty slice, by the nearest rank.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// suggestLease gives whole minutes between 1 min and 6 h.
func suggestLease(setup, work time.Duration) time.Duration {
	d := max(20*setup, min(work*4/3, time.Hour))
	d = (d + time.Minute - 1).Truncate(time.Minute)
	return min(max(d, time.Minute), cms.DefaultMaxLease)
}

func isoMinutes(d time.Duration) string { return fmt.Sprintf("PT%dM", d/time.Minute) }

func showReport(ctx context.Context, call *config.Call, o config.Either) (err error) {
	if asked, ok := throughNode(o); ok {
		return askedReport(ctx, call, asked)
	}
	s, err := openCoordination(ctx, call, o.Stored())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r, by := &workReport{Indices: []indexReport{}, Total: indexReport{Index: "total"}}, map[string]*indexReport{}
	for it, err := range s.Items(ctx) {
		if err != nil {
			return fmt.Errorf("work items in %s: %w", s.place, err)
		}
		id, err := it.Range()
		if err != nil {
			continue // `items list` names foreign documents
		}
		if by[id.Index] == nil {
			by[id.Index] = &indexReport{Index: id.Index}
		}
		r.add(by[id.Index], it)
	}
	arrivals, err := worker.Arrivals(ctx, s.Coordinator)
	if err != nil {
		return fmt.Errorf("indices in %s: %w", s.place, err)
	}
	for name, x := range by {
		x.OnTarget, x.targets = arrivals[name].Arrival, arrivals[name].Targets
	}
	r.finish(by)
	refused, err := s.refused(ctx, "")
	if err != nil {
		return err
	}
	r.Refused = refused.Groups
	if o.Output.JSON() {
		return writeJSON(call.Out, r)
	}
	return r.print(call.Out)
}

func (r *workReport) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "INDEX\tITEMS\tENDED\tFAILED\tLIVE\tINDEXED\tKEPT\tREFUSED\tFILTERED\tBYTES\tON TARGET\tLUCENE\tLEASE s\tSETUP s\tDOCS/s\tMB/s\t")
	row := func(x indexReport, roots, lucene string) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%.1f\t%.1f\t%.0f\t%.1f\t\n", x.Index, x.Items, x.Ended, x.Failed,
			x.Live, x.Indexed, x.Kept, x.Counts.Failed, x.Filtered, x.Bytes, roots, lucene, x.Seconds, x.Setup, x.Rate, x.ByteRate/1e6)
	}
	var total worker.ArrivalTotal
	for _, x := range r.Indices {
		total.Add(worker.Arrived{Targets: x.targets, Arrival: x.OnTarget})
		roots, lucene := x.OnTarget.Texts()
		row(x, roots, lucene)
	}
	roots, lucene := total.Texts()
	row(r.Total, roots, lucene)
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printRefused(terminal.NewWriter(w), r.Refused); err != nil {
		return err
	}
	if r.SuggestedLease == "" {
		_, err := fmt.Fprintln(w, "\nno item has ended yet")
		return err
	}
	if r.First != nil && r.Last != nil {
		fmt.Fprintf(w, "\nfrom %s to %s: %s\n", r.First.Format(time.RFC3339), r.Last.Format(time.RFC3339), r.Last.Sub(*r.First).Round(time.Second))
	}
	fmt.Fprintf(w, "lease time per item: half within %.1f s, nine of ten within %.1f s\n", r.DurationP50, r.DurationP90)
	fmt.Fprintf(w, "setup per item: half within %.1f s, nine of ten within %.1f s; %.1f %% of all lease time\n", r.SetupP50, r.SetupP90, 100*r.SetupShare)
	_, err := fmt.Fprintf(w, "suggested: --initial-lease-duration %s\n", r.SuggestedLease)
	return err
}
