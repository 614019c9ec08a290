package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/terminal"
)

const failuresHelp = `Asked of a node: the items, indices and phases that were given up, by reason. With a store named (--target-host,
   --coordinator-host or --coordinator-file): the documents that the target refused, as the state of the work knows them. Workers of a fleet (rfsd worker, run and
   import) whose --failed-documents is a directory that is not declared shared note there index, id, shard, ordinal and reason.
   The documents themselves, with the target's words, are in those directories. A bucket or a shared directory has all of them, and one process
   alone (rfsd migrate) has them in its directory: nothing is noted then.`

func failuresCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "failures", Usage: "what was given up, by reason (of a node); documents of a fleet that were refused (of the state of the work)", Description: failuresHelp,
	}, showRefused)
}

// refusedGroup is a number of refused documents of one index for one reason.
type refusedGroup struct {
	Index  string `json:"index"`
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// refusedDocuments is what `rfsctl failures` tells.
type refusedDocuments struct {
	Documents []cms.Refused  `json:"documents"`
	Groups    []refusedGroup `json:"groups"`
}

func (r *refusedDocuments) add(d cms.Refused) {
	at := slices.IndexFunc(r.Groups, func(g refusedGroup) bool { return g.Index == d.Index && g.Reason == d.Reason })
	if at < 0 {
		at = len(r.Groups)
		r.Groups = append(r.Groups, refusedGroup{Index: d.Index, Reason: d.Reason})
	}
	r.Groups[at].Count++
}

// sort brings groups into an order, the largest first.
func (r *refusedDocuments) sort() {
	slices.SortFunc(r.Groups, func(a, b refusedGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Reason, b.Reason))
	})
	slices.SortFunc(r.Documents, func(a, b cms.Refused) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.ID, b.ID))
	})
}

// refused reads the documents of an index, of all with "".
func (s *coordination) refused(ctx context.Context, index string) (*refusedDocuments, error) {
	r := &refusedDocuments{Documents: []cms.Refused{}, Groups: []refusedGroup{}}
	for d, err := range s.Refused(ctx) {
		if err != nil {
			return nil, fmt.Errorf("refused documents in %s: %w", s.place, err)
		}
		if index == "" || index == d.Index {
			r.Documents = append(r.Documents, d)
			r.add(d)
		}
	}
	r.sort()
	return r, nil
}

func showRefused(ctx context.Context, call *config.Call, o config.Failures) (err error) {
	stored := o.Either.Stored()
	if throughNode(o.Either) || !stored.Named() {
		return showFailures(ctx, call, o.Either.Asked())
	}
	s, err := openCoordination(ctx, call, stored)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r, err := s.refused(ctx, o.Index.Name)
	if err != nil {
		return err
	}
	if stored.Output.JSON() {
		return writeJSON(call.Out, r)
	}
	return r.print(terminal.NewWriter(call.Out))
}

func (r *refusedDocuments) print(w io.Writer) error {
	if len(r.Documents) == 0 {
		_, err := fmt.Fprintln(w, "no refused documents are noted in the store: rfsd migrate and fleets with a shared directory keep them in --failed-documents (default ./rfsd-failed/SESSION) of the machine that sent them")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "INDEX\tID\tSHARD\tORDINAL\tSTATUS\tREASON")
	for _, d := range r.Documents {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\n", terminal.Clean(d.Index), orDash(terminal.Clean(d.ID)), d.Shard, d.Ordinal, d.Status, terminal.Clean(d.Reason))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return printRefused(w, r.Groups)
}

// printRefused sums refused documents up.
func printRefused(w io.Writer, groups []refusedGroup) error {
	for i, g := range groups {
		if i == 0 {
			fmt.Fprintln(w, "\nrefused documents that the state of the work knows:")
		}
		if _, err := fmt.Fprintf(w, "  %d × %s: %s\n", g.Count, terminal.Clean(g.Index), terminal.Clean(g.Reason)); err != nil {
			return err
		}
	}
	return nil
}
