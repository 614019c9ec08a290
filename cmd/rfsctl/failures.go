package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

const failuresHelp = `Lists what failed: items, indices and phases, by reason, and the failed documents. A node is
asked, or the store is read (--target-host, --coordinator-host, --coordinator-bucket or
--coordinator-file).

The store has how many documents failed, by class, and the hosts and directories that keep
them; with --failed-documents they are read from there (in a bucket: the files of the session).
Only where workers of a fleet (rfsd worker, run and import) keep them in a directory of each
machine, the store also lists index, id, shard, ordinal and reason of each.

Each class of failures has one remedy; rfsd redrive sends the documents again after it was
applied.

At most 10,000 documents are listed; all are counted. The exit code is 6 while documents have
failed and were not delivered, and 7 when items, indices or phases were given up.`

func failuresCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "failures", Usage: "list what failed, by reason, and the rejected documents", Description: failuresHelp,
	}, showFailures)
}

// refusedIn reads the failed documents of an index, of all with "", from their directory or from the session's objects.
func refusedIn(ctx context.Context, o config.Failures) (*status.Failures, error) {
	r := status.NewFailures()
	r.GivenUp = nil // files do not hold that
	prefix := ""
	if repo.IsBucket(o.Failed.Dir) {
		prefix = o.Either.State.Session.OrDefault() + "/"
	}
	files, err := repo.Open(ctx, o.Failed.Dir, o.Stores.Options())
	if err != nil {
		return nil, fmt.Errorf("failed documents: %w", err)
	}
	seen := map[session.Refused]bool{}
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
			key := session.Refused{Index: f.Index, ID: f.ID, Shard: f.Shard, Ordinal: f.Ordinal}
			if index := o.Index.Name; seen[key] || index != "" && index != f.Index {
				continue
			}
			seen[key] = true
			d := key
			d.Reason, d.Status, d.Class = string(f.Reason), f.Status, l.Class().Name
			r.Add(d, f.Detail)
		}
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", blob.Name, err)
		}
	}
	r.Sort()
	for _, g := range r.Groups {
		r.Failed += g.Count
	}
	return r, nil
}

func showFailures(ctx context.Context, call *config.Call, o config.Failures) error {
	f, err := failuresOf(ctx, call, o)
	if err != nil {
		return err
	}
	if call.Out.JSON {
		err = call.Out.Result(f)
	} else {
		err = printFailures(terminal.NewWriter(call.Out), f)
	}
	switch {
	case err != nil:
		return err
	case len(f.GivenUp) > 0:
		return exit.With(exit.Parts, nil)
	case f.Failed > 0 || len(f.Groups) > 0:
		return exit.With(exit.Documents, nil)
	}
	return nil
}

// failuresOf reads what failed: in files of failed documents, from a node, or in the store.
func failuresOf(ctx context.Context, call *config.Call, o config.Failures) (*status.Failures, error) {
	if o.Failed.Dir != "" {
		return refusedIn(ctx, o)
	}
	from := originOf(o.Either)
	from.node = from.node || !from.store.Named()
	return look(ctx, call, from, "/v1/failures", url.Values{"index": {o.Index.Name}}, func(s *coordination) (*status.Failures, error) {
		m, _, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		f, err := s.failures(ctx, m)
		if err != nil {
			return nil, err
		}
		return f.Of(o.Index.Name), nil
	})
}

func printFailures(w io.Writer, f *status.Failures) error {
	if f.GivenUp != nil {
		if len(f.GivenUp) == 0 {
			fmt.Fprintln(w, "no item, index or phase was given up")
		}
		printGivenUp(w, f.GivenUp)
		fmt.Fprintln(w)
	}
	printPlaces(w, f)
	for _, round := range slices.Sorted(maps.Keys(f.FailedLater)) {
		progress.Fprintf(w, "round %d: %s failed first; rfsctl failures --session-name NAME-round-%d shows them\n", round, progress.Plural(f.FailedLater[round], "document"), round)
	}
	if len(f.Documents) == 0 {
		return printRefused(w, f.Groups)
	}
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "INDEX\tID\tSHARD\tORDINAL\tSTATUS\tREASON")
	for _, d := range f.Documents {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\n", terminal.Clean(d.Index), orDash(terminal.Clean(d.ID)), d.Shard, d.Ordinal, d.Status, terminal.Clean(d.Reason))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if f.Omitted > 0 {
		progress.Fprintf(w, "%d more are not listed: only operators are shown ids, at most %d; --failed-documents reads the files, which have all\n", f.Omitted, status.MaxRefused)
	}
	return printRefused(w, f.Groups)
}

// printPlaces prints how many documents failed, and where they are kept.
func printPlaces(w io.Writer, f *status.Failures) {
	if f.Redriven > 0 {
		progress.Fprintf(w, "%d documents failed first; rfsd redrive has delivered them\n", f.Redriven)
	}
	switch {
	case f.Failed == 0 && len(f.Groups) == 0:
		fmt.Fprintln(w, "no document failed")
		return
	case f.GivenUp == nil: // the documents of the files follow
		return
	}
	fmt.Fprintln(w, progress.Plural(f.Failed, "document")+" failed")
	for _, p := range f.Places {
		fmt.Fprintf(w, "  kept in %s\n", terminal.Clean(p.String()))
	}
	if len(f.Places) > 0 && len(f.Documents) == 0 {
		fmt.Fprintln(w, "  rfsctl failures --failed-documents DIRECTORY lists them on that host")
	}
}

// printGivenUp prints items, indices and phases that failed.
func printGivenUp(w io.Writer, all []progress.Failure) {
	for _, f := range all {
		names := terminal.Clean(strings.Join(f.Examples, ", "))
		switch {
		case names == "":
			names = progress.Count(f.Count)
		case int64(len(f.Examples)) < f.Count:
			names = progress.Sprintf("%d, such as %s", f.Count, names)
		}
		fmt.Fprintf(w, "given up: %s: %s\n", names, terminal.Clean(f.Reason))
	}
}

// printRefused sums refused documents up.
func printRefused(w io.Writer, groups []status.RefusedGroup) error {
	for i, g := range groups {
		if i == 0 {
			fmt.Fprintln(w, "\nfailed documents by class:")
		}
		if _, err := progress.Fprintf(w, "  %d × %s: %s (%s)\n    remedy: %s\n", g.Count, terminal.Clean(g.Index), g.Class, terminal.Clean(g.Reason), terminal.Clean(g.Remedy)); err != nil {
			return err
		}
	}
	return nil
}
