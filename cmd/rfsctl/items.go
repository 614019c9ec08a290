package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/progress"
)

const itemsHelp = `A shard of the snapshot is a chain of work items; each covers the ordinals from its cursor to its
   successor's. These commands work on the stored state itself, while workers run or after they died. A coordinator
   file can be read only while no rfsd has it open: list and show ask that rfsd instead. They ask a node with --node, or when no store is
   named and a node, or an rfsd of this user in the foreground, runs on this machine.

   States: open; leased; expired (its lease is over: the next worker takes it); done; handed off (a successor has the
   rest); replaced (another tool began it, its range is done by other items); FAILED (given up, the reason is told; retry
   opens it again).

   "safe to write" is said only when nothing is open and every lease, margin and request timeout has passed: until
   then the last request of a worker that was stopped may still arrive and overwrite what others wrote.`

func itemsCommand() *cli.Command {
	return &cli.Command{
		Name: "items", Usage: "the work items of a migration", Description: itemsHelp,
		Subcommands: []*cli.Command{
			config.Command(cli.Command{Name: "list", Usage: "list work items, their sums, and whether the target is safe to write", Description: itemsHelp}, listItems),
			config.Command(cli.Command{Name: "show", Usage: "show everything about one item", ArgsUsage: "ID", Description: itemsHelp}, showItem),
			config.Command(cli.Command{Name: "retry", Usage: "open FAILED items again; an event records who did", ArgsUsage: "ID...", Description: itemsHelp}, retryItems),
		},
	}
}

// States of items, as they are listed.
const (
	stateOpen     = "open"
	stateLeased   = "leased"
	stateExpired  = "expired"
	stateDone     = "done"
	stateHanded   = "handed off"
	stateReplaced = "replaced"
	stateFailed   = "FAILED"
)

var states = []string{stateOpen, stateLeased, stateExpired, stateDone, stateHanded, stateReplaced, stateFailed}

func stateOf(it cms.Item, now time.Time) string {
	switch {
	case it.FailedItem():
		return stateFailed
	case it.Status == cms.StatusReplaced:
		return stateReplaced
	case !it.Open() && it.Successors != "":
		return stateHanded
	case !it.Open():
		return stateDone
	case it.Holder == "":
		return stateOpen
	case it.Expiration <= now.Unix():
		return stateExpired
	}
	return stateLeased
}

// itemRow is an item as it is shown.
type itemRow struct {
	ID        string     `json:"id"`
	Index     string     `json:"index"`
	Shard     int        `json:"shard"`
	Cursor    int64      `json:"cursor"` // first ordinal
	State     string     `json:"state"`
	Holder    string     `json:"holder,omitempty"`
	LeaseEnd  *time.Time `json:"lease_end,omitempty"`
	Attempts  int        `json:"attempts"` // acquisitions in a row without progress
	Watermark int64      `json:"watermark"`
	Successor string     `json:"successor,omitempty"`
	Failure   string     `json:"failure,omitempty"`
	cms.Counts
}

func newItemRow(id cms.ItemID, it cms.Item, now time.Time) itemRow {
	r := itemRow{
		ID: it.ID, Index: id.Index, Shard: id.Shard, Cursor: id.Cursor, State: stateOf(it, now), Holder: it.Holder,
		Attempts: it.Attempts, Watermark: it.Watermark, Successor: it.Successors, Failure: it.Failure, Counts: it.Counts,
	}
	if it.Open() && it.Holder != "" {
		end := time.Unix(it.Expiration, 0).UTC()
		r.LeaseEnd = &end
	}
	return r
}

// listing is what `items list` tells. Totals are of all items, whatever the filters.
type listing struct {
	Items     []itemRow      `json:"items"`
	States    map[string]int `json:"states"`
	Total     int            `json:"items_total"`
	Totals    cms.Counts     `json:"totals"`
	Seeded    bool           `json:"seeded"` // all items exist
	Safe      bool           `json:"safe_to_write"`
	SafeFrom  *time.Time     `json:"safe_to_write_from,omitempty"` // when nothing is open
	Now       time.Time      `json:"now"`                          // by the clock of the store
	ForeignID []string       `json:"foreign,omitempty"`            // documents that are no items
}

// filter says which items are listed.
type filter struct {
	index  string
	states []string
}

func newFilter(o config.Items) filter {
	f := filter{index: o.Index.Name}
	for _, s := range o.States.Names {
		at := slices.IndexFunc(states, func(name string) bool { return strings.EqualFold(name, s) })
		f.states = append(f.states, states[at])
	}
	return f
}

func (f filter) takes(r itemRow) bool {
	return (f.index == "" || f.index == r.Index) && (len(f.states) == 0 || slices.Contains(f.states, r.State))
}

// list reads every item once.
func (s *coordination) list(ctx context.Context, f filter) (*listing, error) {
	now, _, err := s.store.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("clock of %s: %w", s.place, err)
	}
	l := &listing{Items: []itemRow{}, States: map[string]int{}, Now: now.UTC()}
	var quiet progress.WriteBarrier
	for it, err := range s.store.Scan(ctx) {
		if err != nil {
			return nil, fmt.Errorf("work items in %s: %w", s.place, err)
		}
		quiet.Add(it)
		if it.ID == cms.SetupID {
			l.Seeded = !it.Open()
			continue
		}
		id, err := it.Range()
		if err != nil {
			l.ForeignID = append(l.ForeignID, it.ID)
			continue
		}
		r := newItemRow(id, it, now)
		l.States[r.State]++
		l.Total++
		l.Totals = l.Totals.Add(it.Counts)
		if f.takes(r) {
			l.Items = append(l.Items, r)
		}
	}
	slices.SortFunc(l.Items, func(a, b itemRow) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Cursor, b.Cursor))
	})
	l.Safe = l.Seeded && quiet.SafeToWriteAt(now)
	if l.Seeded && quiet.Open == 0 {
		from := quiet.SafeFrom.UTC()
		l.SafeFrom = &from
	}
	return l, nil
}

// safety is the line that says whether others may write to the target.
func (l *listing) safety() string {
	switch {
	case l.Safe:
		return "safe to write: yes"
	case !l.Seeded:
		return "safe to write: no, the work is not seeded yet"
	case l.SafeFrom == nil:
		open := l.States[stateOpen] + l.States[stateLeased] + l.States[stateExpired]
		return fmt.Sprintf("safe to write: no, %d items are not ended", open)
	}
	return fmt.Sprintf("safe to write: not before %s (in %s): until then a request that was sent before may still arrive",
		l.SafeFrom.Format(time.RFC3339), l.SafeFrom.Sub(l.Now).Round(time.Second))
}

func (l *listing) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "INDEX\tSHARD\tCURSOR\tSTATE\tHOLDER\tLEASE END\tATTEMPTS\tWATERMARK\tLIVE\tINDEXED\tFAILED\tID\tREASON")
	for _, r := range l.Items {
		end := "-"
		if r.LeaseEnd != nil {
			end = r.LeaseEnd.Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", r.Index, r.Shard, r.Cursor, r.State,
			cmp.Or(r.Holder, "-"), end, r.Attempts, r.Watermark, r.Live, r.Indexed, r.Failed, r.ID, cmp.Or(r.Failure, "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	parts := make([]string, 0, len(states))
	for _, s := range states {
		if n := l.States[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	fmt.Fprintf(w, "\n%d items: %s; %d live documents, %d indexed, %d kept, %d failed, %d filtered, %d bytes\n", l.Total,
		cmp.Or(strings.Join(parts, ", "), "none"), l.Totals.Live, l.Totals.Indexed, l.Totals.Kept, l.Totals.Failed, l.Totals.Filtered, l.Totals.Bytes)
	if len(l.ForeignID) > 0 {
		fmt.Fprintf(w, "%d documents of the queue are no work items: %s\n", len(l.ForeignID), strings.Join(l.ForeignID[:min(5, len(l.ForeignID))], ", "))
	}
	_, err := fmt.Fprintln(w, l.safety())
	return err
}

func listItems(ctx context.Context, call *config.Call, o config.Items) (err error) {
	f := newFilter(o)
	if asked, ok := throughNode(o.Either); ok {
		return askedItems(ctx, call, asked, f)
	}
	s, err := openCoordination(ctx, call, o.Either.Stored())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	l, err := s.list(ctx, f)
	if err != nil {
		return err
	}
	if o.Either.Output.JSON() {
		return writeJSON(call.Out, l)
	}
	return l.print(call.Out)
}

// showItem prints the stored document with what can be derived from its id.
func showItem(ctx context.Context, call *config.Call, o config.Either) (err error) {
	if len(call.Args) != 1 {
		return fmt.Errorf("which item? `rfsctl items show ID` takes one id, as `rfsctl items list` prints it: %w", fault.ErrConfig)
	}
	id, err := cms.ParseID(call.Args[0])
	if err != nil {
		return fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	if asked, ok := throughNode(o); ok {
		return askedItem(ctx, call, asked, id.String())
	}
	s, err := openCoordination(ctx, call, o.Stored())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	it, err := s.Item(ctx, id)
	if err != nil {
		return fmt.Errorf("item %s in %s: %w", id, s.place, err)
	}
	now, _, err := s.store.Now(ctx)
	if err != nil {
		return fmt.Errorf("clock of %s: %w", s.place, err)
	}
	shown := struct {
		itemRow
		Stored cms.Item `json:"stored"`
	}{newItemRow(id, it, now), it}
	if o.Output.JSON() {
		return writeJSON(call.Out, shown)
	}
	return shown.print(call.Out, it)
}

func (r itemRow) print(w io.Writer, it cms.Item) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	when := func(ms int64) string {
		if ms == 0 {
			return "-"
		}
		return time.UnixMilli(ms).UTC().Format(time.RFC3339)
	}
	for _, line := range [][2]string{
		{"index", r.Index}, {"shard", fmt.Sprint(r.Shard)}, {"cursor", fmt.Sprint(r.Cursor)}, {"id", r.ID}, {"state", r.State},
		{"failure", cmp.Or(r.Failure, "-")}, {"holder", cmp.Or(r.Holder, "-")}, {"acquired", when(it.AcquiredAt)},
		{"lease end", when(it.Expiration * 1000)}, {"completed", when(it.CompletedAt * 1000)},
		{"released for", cmp.Or(it.ReleasedFor, "-")}, {"attempts without progress", fmt.Sprint(r.Attempts)},
		{"next lease", fmt.Sprintf("2^%d × initial lease", it.Exponent)}, {"setup", (time.Duration(it.SetupMs) * time.Millisecond).String()},
		{"watermark", fmt.Sprint(r.Watermark)}, {"ordinals", fmt.Sprint(r.Ordinals)}, {"live", fmt.Sprint(r.Live)},
		{"indexed", fmt.Sprint(r.Indexed)}, {"kept", fmt.Sprint(r.Kept)}, {"failed", fmt.Sprint(r.Failed)}, {"filtered", fmt.Sprint(r.Filtered)},
		{"bytes", fmt.Sprint(r.Bytes)}, {"successors", cmp.Or(r.Successor, "-")}, {"created by", cmp.Or(it.CreatorID, "-")},
	} {
		fmt.Fprintf(t, "%s\t%s\n", line[0], line[1])
	}
	return t.Flush()
}

// retryItems opens FAILED items again. It goes on after an item that cannot be opened.
func retryItems(ctx context.Context, call *config.Call, o config.Stored) (err error) {
	if len(call.Args) == 0 {
		return fmt.Errorf("which items? `rfsctl items list --state failed` lists those that can be retried: %w", fault.ErrConfig)
	}
	var ids []cms.ItemID
	for _, arg := range call.Args {
		id, err := cms.ParseID(arg)
		if err != nil {
			return fmt.Errorf("%w: %w", err, fault.ErrConfig)
		}
		ids = append(ids, id)
	}
	s, err := openCoordination(ctx, call, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	retried := []string{}
	var errs []error
	for _, id := range ids {
		if err := s.Unfail(ctx, id, operator()); err != nil {
			errs = append(errs, err)
			continue
		}
		retried = append(retried, id.String())
	}
	if o.Output.JSON() {
		return errors.Join(append(errs, writeJSON(call.Out, map[string]any{"retried": retried}))...)
	}
	for _, id := range retried {
		fmt.Fprintf(call.Out, "%s is open again\n", id)
	}
	return errors.Join(errs...)
}

// operator names who runs this program, for the audit.
func operator() string {
	name := fmt.Sprintf("uid %d", os.Getuid())
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + " on " + host
}
