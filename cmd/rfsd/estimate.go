package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const estimateHelp = `Reads the manifests of the snapshot's shards (with --documents also the files that count their
documents) and reports how much a migration has to read: bytes and requests to the repository. No
other cluster or service is contacted.`

// estimateReaders is how many shards are opened at the same time.
const estimateReaders = 8

func estimateCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "estimate", Usage: "estimate how much a migration has to read", Description: estimateHelp,
	}, func(ctx context.Context, call *config.Call, o config.Estimate) error {
		r, err := repo.OpenFederation(ctx, o.Repository.URI, o.Repository.Remotes, o.Repository.S3.Options())
		if err != nil {
			return exit.With(exit.Snapshot, err)
		}
		blobs := repo.NewCounting(r)
		blobs.LargeAlone(call.Memory.Alone)
		plan, err := plan.New(ctx, blobs, plan.Request{
			SnapshotName: o.Snapshot.Name, Indices: o.Indices.Selection(), IncludeSystem: o.System.Include, AllowPartial: o.Partial.Allow,
			MultiType: plan.UnionTypes, EmitType: plan.EmitAuto, // names of targets mean nothing here
		})
		if err != nil {
			return planError(err)
		}
		e, err := estimate(ctx, blobs, plan, o.Counting.Documents)
		if err != nil {
			return exit.With(exit.Snapshot, err)
		}
		if o.Output.JSON() {
			return writeJSON(terminal.Raw(call.Out), e)
		}
		return e.write(call.Out)
	})
}

// sizes are what a migration has to do for an index, or for all.
type sizes struct {
	Index  string `json:"index,omitempty"`
	Shards int    `json:"shards"`
	Bytes  int64  `json:"bytes"`      // of all files of the shards
	Read   int64  `json:"bytes_read"` // at most: files of stored documents, or the compound files that hold them
	// Documents are Lucene documents that live, nested ones included; -1 when they were not counted.
	Documents int64    `json:"documents"`
	Requests  int64    `json:"repository_requests"`
	Problems  []string `json:"problems,omitempty"` // shards that cannot be read
}

type estimation struct {
	Indices []sizes `json:"indices"`
	Total   sizes   `json:"total"`
}

// estimate looks at every shard of the plan.
func estimate(ctx context.Context, blobs repo.Repository, plan *plan.Plan, documents bool) (*estimation, error) {
	e := &estimation{Indices: make([]sizes, len(plan.Indices))}
	for i, x := range plan.Indices {
		shards := make([]sizes, x.Entry.Shards)
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(estimateReaders)
		for n := range shards {
			g.Go(func() error {
				var err error
				if shards[n], err = shardSizes(gctx, blobs, x.Entry.Locator, n, documents); err != nil {
					shards[n].Problems = []string{fmt.Sprintf("%s/%d: %s", x.Name, n, fault.Text(err))}
				}
				return gctx.Err()
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		e.Indices[i].Index = x.Name
		for _, s := range shards {
			e.Indices[i].add(s)
		}
		e.Total.add(e.Indices[i])
	}
	for _, x := range plan.Unread {
		broken := sizes{Index: x.Name, Problems: []string{fmt.Sprintf("%s: %s", x.Name, x.Reason)}}
		e.Indices = append(e.Indices, broken)
		e.Total.add(broken)
	}
	return e, nil
}

// shardSizes reads the manifest of a shard and, when documents are wanted, its commit.
func shardSizes(ctx context.Context, blobs repo.Repository, loc snapshot.Locator, n int, documents bool) (sizes, error) {
	s := sizes{Shards: 1, Documents: -1}
	shard, err := snapshot.OpenShard(ctx, blobs, loc, n)
	if err != nil {
		return s, err
	}
	s.Bytes = shard.TotalBytes
	s.Read, s.Requests = worker.ReadCost(shard)
	if !documents {
		return s, nil
	}
	commit, err := lucene.Open(ctx, shard.Directory(), lucene.Options{})
	if err != nil {
		return s, err
	}
	s.Documents = commit.LiveDocs
	return s, nil
}

func (s *sizes) add(o sizes) {
	s.Shards += o.Shards
	s.Bytes += o.Bytes
	s.Read += o.Read
	s.Requests += o.Requests
	if o.Documents < 0 {
		s.Documents = -1
	} else if s.Documents >= 0 {
		s.Documents += o.Documents
	}
	s.Problems = append(s.Problems, o.Problems...)
}

func (e *estimation) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "index\tshards\tbytes\tto read at most\tdocuments\trequests\t")
	e.Total.Index = "total"
	for _, s := range append(e.Indices, e.Total) {
		documents := "?"
		if s.Documents >= 0 {
			documents = progress.Count(s.Documents)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t\n", s.Index, s.Shards, progress.Bytes(s.Bytes), progress.Bytes(s.Read), documents, progress.Count(s.Requests))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range e.Total.Problems {
		fmt.Fprintln(w, "cannot be read:", p)
	}
	return nil
}
