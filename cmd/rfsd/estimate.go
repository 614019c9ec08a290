package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lucene"
	"github.com/rfsd/rfsd/rfs/progress"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/snapshot"
	"github.com/rfsd/rfsd/rfs/terminal"
	"github.com/rfsd/rfsd/rfs/worker"
)

const estimateHelp = `Reads the manifests of the snapshot's shards (with --documents also what counts their documents) and says what a migration has
   to read: bytes and requests to the repository. Nothing is sent to anybody.`

const (
	// rangeBytes is how much one request of a long stream fetches (rfs/repo reads ahead in such pieces).
	rangeBytes = 4 << 20
	// openRequests is what opening a shard takes: its manifest, segments_N, and some files of each segment.
	openRequests       = 3
	perSegmentRequests = 5
	estimateReaders    = 8
)

func estimateCommand() *cli.Command {
	flags := append(sourceFlags(), selectionFlags()...)
	flags = append(flags, yes(work, "documents", "count documents, too: some more requests per shard"), str(work, "output", "text", "text or json"))
	return &cli.Command{
		Name: "estimate", Usage: "say how much a migration has to read before it begins", Description: estimateHelp, Flags: flags,
		Action: func(c *cli.Context) error {
			if c.String("repo-uri") == "" || c.String("snapshot-name") == "" {
				return usage("--repo-uri and --snapshot-name name the snapshot")
			}
			indices, err := selectedIndices(c)
			if err != nil {
				return err
			}
			blobs, err := repo.Open(c.Context, c.String("repo-uri"), repo.S3Options{
				Region: c.String("s3-region"), Endpoint: c.String("s3-endpoint"), PathStyle: c.Bool("s3-path-style"),
				RoleARN: c.String("s3-role-arn"), RequesterPays: c.Bool("s3-requester-pays"),
			})
			if err != nil {
				return &codedError{exitSnapshot, err}
			}
			plan, err := worker.NewPlan(c.Context, blobs, worker.Request{
				SnapshotName: c.String("snapshot-name"), Indices: indices, IncludeSystem: c.Bool("include-system"), AllowPartial: c.Bool("allow-partial"),
				MultiType: worker.UnionTypes, EmitType: worker.EmitAuto, // names of targets mean nothing here
			})
			if err != nil {
				return planError(err)
			}
			e, err := estimate(c.Context, blobs, plan, c.Bool("documents"))
			if err != nil {
				return &codedError{exitSnapshot, err}
			}
			if c.String("output") == "json" {
				enc := json.NewEncoder(os.Stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(e)
			}
			return e.write(terminal.NewWriter(os.Stdout))
		},
	}
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
func estimate(ctx context.Context, blobs repo.Repository, plan *worker.Plan, documents bool) (*estimation, error) {
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
	s.Bytes, s.Requests = shard.TotalBytes, openRequests
	for _, f := range shard.Files {
		switch {
		case strings.HasSuffix(f.Name, ".si"):
			s.Requests += perSegmentRequests
		case strings.HasSuffix(f.Name, ".fdt"), strings.HasSuffix(f.Name, ".cfs"):
			s.Read += f.Length
			s.Requests += (f.Length + rangeBytes - 1) / rangeBytes
		}
	}
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
			documents = count(s.Documents)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t\n", s.Index, s.Shards, progress.Bytes(s.Bytes), progress.Bytes(s.Read), documents, count(s.Requests))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range e.Total.Problems {
		fmt.Fprintln(w, "cannot be read:", p)
	}
	return nil
}
