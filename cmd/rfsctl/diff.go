package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/source/difference"
)

const diffHelp = `Compares the sequence numbers of two snapshots of a repository and counts, for each index,
versions of documents that only the later one has (new) or only the earlier one has (gone). An
updated document counts once in each, an inserted one as new, a deleted one as gone. Only the
sequence numbers of segments that were written in between are read. Shards whose documents have
no unique sequence numbers (Elasticsearch 5 and earlier, shrunk indices), and restored indices,
are named with the reason. With --read-documents these are compared by ids and sources, and
updated documents are counted apart from inserted and deleted ones.`

// diffShards is the number of shards that are compared at a time, diffMemory the memory of a pass over one of them, in bytes.
const diffShards, diffMemory = 4, 32 << 20

type differentIndex struct {
	Index      string           `json:"index"`
	State      difference.State `json:"state"`
	Shards     int              `json:"shards"`
	*Versions                   // nil with --read-documents
	*Documents                  // nil without
	Unchanged  int64            `json:"unchanged"`
	Remarks    []string         `json:"remarks,omitempty"`
}

// Versions counts versions of documents.
type Versions struct {
	New  int64 `json:"new"`
	Gone int64 `json:"gone"`
}

// Documents counts documents.
type Documents struct {
	Inserted int64 `json:"inserted"`
	Updated  int64 `json:"updated"`
	Deleted  int64 `json:"deleted"`
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
	opt := difference.Options{Selected: o.Indices.Selection().Match, Memory: diffMemory, Concurrency: diffShards, Documents: o.Earlier.Documents}
	indices, broken, shards, older := []differentIndex{}, false, 0, 0
	for x := range difference.Snapshots(ctx, r, from, to, opt) {
		out := differentIndex{Index: x.Name, State: x.State, Shards: len(x.Shards)}
		if opt.Documents {
			out.Documents = &Documents{}
		} else {
			out.Versions = &Versions{}
		}
		if x.Err != nil {
			broken = true
			out.Remarks = append(out.Remarks, fault.Text(x.Err))
		}
		for n, s := range x.Shards {
			out.add(s)
			if shards++; s.Whole == difference.Older {
				older++
			}
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
	if call.Out.JSON {
		err = call.Out.Result(differentSnapshots{from.Name, to.Name, indices})
	} else {
		err = writeDifferences(call, indices, opt.Documents)
	}
	if older > 0 && older == shards {
		fmt.Fprintf(call.Err, "rfsctl: warning: snapshot %s is older than %s: exchange --snapshot-name and --since\n", terminal.Clean(to.Name), terminal.Clean(from.Name))
	}
	if err == nil && broken {
		return exit.With(exit.Snapshot, nil)
	}
	return err
}

// differentSnapshots is the result of rfsctl snapshot diff.
type differentSnapshots struct {
	Since    string           `json:"since"`
	Snapshot string           `json:"snapshot"`
	Indices  []differentIndex `json:"indices"`
}

// add adds the difference of a shard.
func (x *differentIndex) add(s difference.Shard) {
	if x.Documents != nil {
		x.Inserted, x.Updated, x.Deleted = x.Inserted+s.Totals.Inserted, x.Updated+s.Totals.Updated, x.Deleted+s.Totals.Deleted
		x.Unchanged += s.Totals.Unchanged
		return
	}
	x.New, x.Gone, x.Unchanged = x.New+s.New, x.Gone+s.Gone, x.Unchanged+s.Unchanged
}

// counts returns the counts of the table.
func (x differentIndex) counts() []int64 {
	if x.Documents != nil {
		return []int64{x.Inserted, x.Updated, x.Deleted, x.Unchanged}
	}
	return []int64{x.New, x.Gone, x.Unchanged}
}

func writeDifferences(call *config.Call, indices []differentIndex, documents bool) error {
	t := terminal.NewTable(call.Out)
	columns := []string{"INDEX", "STATE", "SHARDS", "NEW", "GONE", "UNCHANGED"}
	if documents {
		columns = []string{"INDEX", "STATE", "SHARDS", "INSERTED", "UPDATED", "DELETED", "UNCHANGED"}
	}
	fmt.Fprintln(t, strings.Join(columns, "\t"))
	for _, x := range indices {
		if x.State != difference.Compared {
			fmt.Fprintf(t, "%s\t%s%s\n", x.Index, x.State, strings.Repeat("\t", len(columns)-2))
			continue
		}
		progress.Fprintf(t, "%s\t%s\t%d", x.Index, x.State, x.Shards)
		for _, n := range x.counts() {
			progress.Fprintf(t, "\t%d", n)
		}
		fmt.Fprintln(t)
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
