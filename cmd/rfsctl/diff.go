package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/source/difference"
)

const diffHelp = `Compares the sequence numbers of two snapshots of a repository and counts, for each index,
versions of documents that only the later one has (new) or only the earlier one has (gone). An
updated document counts once in each, an inserted one as new, a deleted one as gone. Only
segments that were written in between are read, and of them two columns. Shards whose documents
have no unique sequence numbers (Elasticsearch 5 and earlier, shrunk indices), and restored
indices, are named with the reason.`

// diffMemory is the memory of a pass over the numbers of a shard, in bytes.
const diffMemory = 32 << 20

type differentIndex struct {
	Index     string           `json:"index"`
	State     difference.State `json:"state"`
	Shards    int              `json:"shards"`
	New       int64            `json:"new"`
	Gone      int64            `json:"gone"`
	Unchanged int64            `json:"unchanged"`
	Remarks   []string         `json:"remarks,omitempty"`
}

func diffSnapshots(ctx context.Context, call *config.Call, o config.DiffSnapshots) error {
	r, catalog, err := open(ctx, call, o.Snapshots.Repository)
	if err != nil {
		return unreadable(err)
	}
	from, err := catalog.Snapshot(ctx, o.Earlier.Name)
	if err != nil {
		return unreadable(err)
	}
	to, err := catalog.Snapshot(ctx, o.Snapshot.Name)
	if err != nil {
		return unreadable(err)
	}
	selection := o.Indices.Selection()
	indices, broken := []differentIndex{}, false
	for x := range difference.Snapshots(ctx, r, from, to, diffMemory, selection.Match) {
		out := differentIndex{Index: x.Name, State: x.State, Shards: len(x.Shards)}
		if x.Err != nil {
			broken = true
			out.Remarks = append(out.Remarks, fault.Text(x.Err))
		}
		for n, s := range x.Shards {
			out.New, out.Gone, out.Unchanged = out.New+s.New, out.Gone+s.Gone, out.Unchanged+s.Unchanged
			switch {
			case s.Err != nil:
				broken = true
				out.Remarks = append(out.Remarks, fmt.Sprintf("shard %d: %s", n, fault.Text(s.Err)))
			case s.Whole != "":
				out.Remarks = append(out.Remarks, fmt.Sprintf("shard %d was not compared: %s", n, s.Whole))
			}
		}
		indices = append(indices, out)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if o.Snapshots.Output.JSON() {
		err = report.JSON(call.Out, struct {
			Since    string           `json:"since"`
			Snapshot string           `json:"snapshot"`
			Indices  []differentIndex `json:"indices"`
		}{from.Name, to.Name, indices})
	} else {
		err = writeDifferences(call, indices)
	}
	if err == nil && broken {
		return exit.With(exit.Snapshot, nil)
	}
	return err
}

func writeDifferences(call *config.Call, indices []differentIndex) error {
	t := tabwriter.NewWriter(call.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "index\tstate\tshards\tnew\tgone\tunchanged")
	for _, x := range indices {
		if x.State == difference.Compared {
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\n", x.Index, x.State, x.Shards, x.New, x.Gone, x.Unchanged)
		} else {
			fmt.Fprintf(t, "%s\t%s\t\t\t\t\n", x.Index, x.State)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, x := range indices {
		for _, remark := range x.Remarks {
			fmt.Fprintf(call.Out, "index %s: %s\n", x.Index, terminal.Escaped(remark))
		}
	}
	return nil
}
