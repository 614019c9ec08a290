package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/source/check"
)

const checkHelp = `Follows every reference from the repository's catalog to the Lucene files: checks that each blob
exists, and its length and checksum; opens each shard and counts its live documents; lists blobs
that nothing refers to (only when all snapshots are checked). Nothing is written.

--read-data-subset n/t reads the data of one t-th of the files, so that t runs with n = 1 to t
read all of them; 0/1 reads none and checks names, lengths and metadata only. Metadata is always
read.

Notices and unreferenced blobs are printed and exit with 0. Shards that the snapshot was made
without, or that rfsd cannot read, exit with 7; damage with 5, which takes precedence.`

func checkCommand() *cli.Command {
	return config.Command(cli.Command{
		Name:        "check",
		Usage:       "check that snapshots are complete and undamaged",
		Description: checkHelp,
	}, checkSnapshots)
}

func checkSnapshots(ctx context.Context, call *config.Call, o config.CheckSnapshots) error {
	r, catalog, err := open(ctx, call, o.Snapshots.Repository)
	if err != nil {
		return unreadable(err)
	}
	name := o.Snapshot.Name
	if name != "" {
		if _, err := catalog.Find(name); err != nil {
			return err
		}
	}
	out, err := check.Run(ctx, r, catalog, check.Subset{N: o.Subset.Data.N, Of: o.Subset.Data.Of}, o.Subset.Concurrency, name)
	if err != nil {
		return err
	}
	if call.Out.JSON {
		err = call.Out.Result(out)
	} else {
		err = printChecked(call.Out, out)
	}
	if err != nil {
		return err
	}
	switch out.Gravest() {
	case check.Damage:
		return exit.With(exit.Snapshot, nil)
	case check.Incomplete, check.Unsupported:
		return exit.With(exit.Parts, nil)
	case check.Unreferenced, check.Notice:
	}
	return nil
}

func printChecked(w io.Writer, c check.Report) error {
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "SNAPSHOT\tSTATE\tINDEX\tSHARDS\tDOCUMENTS\tDELETED\tBYTES")
	for _, s := range c.Snapshots {
		if len(s.Indices) == 0 {
			fmt.Fprintf(t, "%s\t%s\t\t\t\t\t\n", s.Name, s.State)
		}
		for _, x := range s.Indices {
			progress.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", s.Name, s.State, x.Index, x.Shards, x.Documents, x.Deleted, progress.Bytes(x.Bytes))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	missing := ""
	if c.Missing > 0 {
		missing = progress.Sprintf("; %d more that they refer to are missing", c.Missing)
	}
	progress.Fprintf(w, "\n%d of %d blobs are referenced by snapshots (the others, if not listed here, are the repository's own, such as index.latest)%s; %d of %d files read whole (%s), %d of them too old for a checksum\n",
		c.Referenced, c.Blobs, missing, c.FilesRead, c.Files, progress.Bytes(c.BytesRead), c.Unverified)
	for _, f := range c.Findings {
		where := f.Blob
		switch {
		case f.Index != "":
			where = strings.TrimSpace(where) + fmt.Sprintf(" (snapshot %s, index %s", f.Snapshot, f.Index)
			if f.Shard != nil {
				where += fmt.Sprintf(", shard %d", *f.Shard)
			}
			where += ")"
		case f.Snapshot != "" && where == "":
			where = "snapshot " + f.Snapshot
		case where == "":
			where = "repository"
		}
		fmt.Fprintf(w, "%s: %s: %s\n", f.Kind, where, f.Text)
	}
	_, err := fmt.Fprintln(w, progress.Plural(int64(len(c.Findings)), "finding"))
	return err
}
