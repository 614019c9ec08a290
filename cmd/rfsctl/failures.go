package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/failed"
	"github.com/rfsd/rfsd/rfs/failed/classes"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/terminal"
)

const failuresHelp = `Asked of a node: the items, indices and phases that were given up, by reason. With a store named (--target-host,
   --coordinator-host or --coordinator-file): the documents that the target refused, as the state of the work knows them. Workers of a fleet (rfsd worker, run and
   import) whose --failed-documents is a directory that is not declared shared note there index, id, shard, ordinal and reason.
   The documents themselves, with the target's words, are in those directories. A bucket or a shared directory has all of them, and one process
   alone (rfsd migrate) has them in its directory: nothing is noted then. With --failed-documents they are read from there (of a bucket: those of
   the session). Each class of failures has one remedy; rfsd redrive sends the documents again when it is applied.`

func failuresCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "failures", Usage: "what was given up, by reason (of a node); documents of a fleet that were refused (of the state of the work)", Description: failuresHelp,
	}, showRefused)
}

// refusedGroup is a number of refused documents of one index with one remedy.
type refusedGroup struct {
	Index  string `json:"index"`
	Class  string `json:"class"`
	Reason string `json:"reason"` // of the first
	Count  int64  `json:"count"`
	Remedy string `json:"remedy"`
}

// refusedDocuments is what `rfsctl failures` tells.
type refusedDocuments struct {
	Documents []cms.Refused  `json:"documents"`
	Groups    []refusedGroup `json:"groups"`
}

// add counts a document; detail is the target's message, if it is known.
func (r *refusedDocuments) add(d cms.Refused, detail string) {
	class, ok := classes.Named(d.Class)
	if !ok {
		class = classes.Of(doc.Reason(d.Reason), detail)
	}
	at := slices.IndexFunc(r.Groups, func(g refusedGroup) bool { return g.Index == d.Index && g.Class == class.Name })
	if at < 0 {
		at = len(r.Groups)
		r.Groups = append(r.Groups, refusedGroup{Index: d.Index, Class: class.Name, Reason: d.Reason, Remedy: class.For(d.Index, detail)})
	}
	r.Groups[at].Count++
}

// sort brings groups into an order, the largest first.
func (r *refusedDocuments) sort() {
	slices.SortFunc(r.Groups, func(a, b refusedGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Class, b.Class))
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
			r.add(d, "")
		}
	}
	r.sort()
	return r, nil
}

// refusedIn reads the failed documents of an index, of all with "", from their directory or from the session's objects.
func refusedIn(ctx context.Context, o config.Failures) (*refusedDocuments, error) {
	r := &refusedDocuments{Documents: []cms.Refused{}, Groups: []refusedGroup{}}
	prefix := ""
	if config.InBucket(o.Failed.Dir) {
		prefix = o.Either.State.Session.OrDefault() + "/"
	}
	files, err := repo.Open(ctx, o.Failed.Dir, o.S3.Options())
	if err != nil {
		return nil, fmt.Errorf("failed documents: %w", err)
	}
	seen := map[cms.Refused]bool{}
	for blob, err := range files.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", o.Failed.Dir, err)
		}
		if !strings.HasSuffix(blob.Name, ".ndjson") || blob.Size == 0 {
			continue
		}
		in, err := files.Open(ctx, blob.Name, 0, -1)
		if err != nil {
			return nil, fmt.Errorf("failed documents: %w", err)
		}
		for l, lerr := range failed.Heads(in) {
			if err = errors.Join(lerr, l.Err); err != nil {
				break
			}
			f := l.Failure
			key := cms.Refused{Index: f.Index, ID: f.ID, Shard: f.Shard, Ordinal: f.Ordinal}
			if index := o.Index.Name; seen[key] || index != "" && index != f.Index {
				continue
			}
			seen[key] = true
			d := key
			d.Reason, d.Status, d.Class = string(f.Reason), f.Status, classes.Of(f.Reason, f.Detail).Name
			r.Documents = append(r.Documents, d)
			r.add(d, f.Detail)
		}
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", blob.Name, err)
		}
	}
	r.sort()
	return r, nil
}

func showRefused(ctx context.Context, call *config.Call, o config.Failures) (err error) {
	stored := o.Either.Stored()
	if o.Failed.Dir != "" {
		r, err := refusedIn(ctx, o)
		if err != nil {
			return err
		}
		return r.show(call, stored.Output)
	}
	if asked, ok := throughNode(o.Either); ok || !stored.Named() {
		return showFailures(ctx, call, asked)
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
	return r.show(call, stored.Output)
}

func (r *refusedDocuments) show(call *config.Call, output config.Output) error {
	if output.JSON() {
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
			fmt.Fprintln(w, "\nrefused documents by class:")
		}
		if _, err := fmt.Fprintf(w, "  %d × %s: %s (%s)\n    remedy: %s\n", g.Count, terminal.Clean(g.Index), g.Class, terminal.Clean(g.Reason), terminal.Clean(g.Remedy)); err != nil {
			return err
		}
	}
	return nil
}
