package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const showHelp = `Opens every shard of a snapshot and counts segments, live Lucene documents (including nested
ones), deletions and bytes, and reports which Lucene version wrote them.`

func snapshotCommand() *cli.Command {
	return &cli.Command{
		Name:  "snapshot",
		Usage: "inspect the snapshots of a repository, without a cluster",
		Subcommands: []*cli.Command{
			config.Command(cli.Command{Name: "list", Usage: "list the snapshots of a repository"}, listSnapshots),
			config.Command(cli.Command{Name: "show", Usage: "show the indices and shards of a snapshot", Description: showHelp}, showSnapshot),
			config.Command(cli.Command{Name: "diff", Usage: "count the documents that changed between two snapshots", Description: diffHelp}, diffSnapshots),
			config.Command(cli.Command{Name: "extract", Usage: "write the dashboards and roles of a snapshot to files", Description: extractHelp}, extractSnapshot),
			checkCommand(),
		},
	}
}

// unreadable gives a repository whose catalog is damaged the exit code of damage.
func unreadable(err error) error {
	if errors.Is(err, fault.ErrCorrupt) {
		return exit.With(exit.Snapshot, err)
	}
	return err
}

// open opens the repository and its catalog.
func open(ctx context.Context, call *config.Call, at config.Repository) (repo.Repository, *snapshot.Catalog, error) {
	stores := at.Stores.Options()
	stores.Rate = throttle.New(int64(at.Pace.Max))
	all, err := repo.OpenFederation(ctx, at.URI, at.Remotes, stores)
	if err != nil {
		return nil, nil, err
	}
	r := repo.NewCounting(all)
	r.LargeAlone(call.Memory.Alone)
	catalog, err := snapshot.OpenCatalog(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range catalog.Warnings {
		fmt.Fprintln(call.Err, "rfsctl: warning:", w)
	}
	return r, catalog, nil
}

type listed struct {
	Name    string    `json:"name"`
	UUID    string    `json:"uuid"`
	State   string    `json:"state"`
	Version string    `json:"version"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Shards  int       `json:"shards"`
	Indices []string  `json:"indices"`
	Missing []string  `json:"missing_shards,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// snapshotList is the result of rfsctl snapshot list.
type snapshotList struct {
	Repository string   `json:"repository"`
	Snapshots  []listed `json:"snapshots"`
}

func listSnapshots(ctx context.Context, call *config.Call, o config.Snapshots) error {
	_, catalog, err := open(ctx, call, o.Repository)
	if err != nil {
		return unreadable(err)
	}
	out := snapshotList{Repository: o.Repository.URI, Snapshots: []listed{}}
	for _, ref := range catalog.Snapshots {
		out.Snapshots = append(out.Snapshots, describe(ctx, catalog, ref))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	slices.SortStableFunc(out.Snapshots, func(a, b listed) int { return a.Started.Compare(b.Started) }) // repositories list them in any order
	if call.Out.JSON {
		return call.Out.Result(out)
	}
	t := terminal.NewTable(call.Out)
	fmt.Fprintln(t, "NAME\tSTATE\tVERSION\tINDICES\tSHARDS\tSTARTED")
	for _, s := range out.Snapshots {
		started := ""
		if !s.Started.IsZero() {
			started = s.Started.UTC().Format(time.RFC3339)
		}
		progress.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\n", s.Name, s.State, s.Version, len(s.Indices), s.Shards, started)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range out.Snapshots {
		if s.Error != "" {
			fmt.Fprintf(call.Out, "%s: %s\n", s.Name, s.Error)
		}
	}
	return nil
}

// stateDamaged is shown in place of the recorded state when the blobs of a snapshot contradict it.
const stateDamaged = "DAMAGED"

func describe(ctx context.Context, catalog *snapshot.Catalog, ref snapshot.Ref) listed {
	l := listed{Name: ref.Name, UUID: ref.UUID, State: string(ref.State), Version: ref.Version, Indices: []string{}}
	s, err := catalog.Snapshot(ctx, ref.Name)
	if err != nil {
		l.Error = fault.Text(err)
		if errors.Is(err, fault.ErrCorrupt) {
			l.State = stateDamaged
		}
		return l
	}
	l.State, l.Version, l.Shards = string(s.State), s.Version, s.TotalShards
	if s.StartMillis > 0 {
		l.Started = progress.Time(s.StartMillis)
	}
	if s.EndMillis > 0 {
		l.Ended = progress.Time(s.EndMillis)
	}
	for _, x := range s.Indices {
		l.Indices = append(l.Indices, x.Name)
	}
	for _, f := range s.Failures {
		l.Missing = append(l.Missing, fmt.Sprintf("%s/%d: %s", f.Index, f.Shard, f.Reason))
	}
	return l
}

type shownIndex struct {
	Index     string       `json:"index"`
	State     string       `json:"state"`
	Types     []string     `json:"mapping_types,omitempty"`
	Documents int64        `json:"lucene_documents"`
	Deleted   int64        `json:"deleted"`
	Bytes     int64        `json:"bytes"`
	Shards    []shownShard `json:"shards"`
	Sources   plan.Sources `json:"sources,omitzero"`
	Error     string       `json:"error,omitempty"`
}

type shownShard struct {
	Shard     int      `json:"shard"`
	Segments  int      `json:"segments"`
	Documents int64    `json:"lucene_documents"` // live, nested children included
	Deleted   int64    `json:"deleted"`
	Bytes     int64    `json:"bytes"`
	Lucene    []string `json:"lucene,omitempty"`
	Stored    []string `json:"stored_fields,omitempty"`
	Missing   string   `json:"missing,omitempty"` // why the snapshot was made without the shard
	Error     string   `json:"error,omitempty"`
}

// shownSnapshot is the result of rfsctl snapshot show.
type shownSnapshot struct {
	listed
	Indices []shownIndex `json:"indices"`
}

func showSnapshot(ctx context.Context, call *config.Call, o config.ShowSnapshot) error {
	r, catalog, err := open(ctx, call, o.Snapshots.Repository)
	if err != nil {
		return unreadable(err)
	}
	s, err := catalog.Snapshot(ctx, o.Snapshot.Name)
	if err != nil {
		return err
	}
	out := shownSnapshot{listed: describe(ctx, catalog, s.Ref)}
	broken := false
	for _, x := range s.Indices {
		shown := showIndex(ctx, r, s, x.Name)
		broken = broken || shown.Error != "" || slices.ContainsFunc(shown.Shards, func(s shownShard) bool { return s.Error != "" })
		out.Indices = append(out.Indices, shown)
	}
	if call.Out.JSON {
		err = call.Out.Result(out)
	} else {
		err = tableOf(call.Out, out.Indices)
	}
	if err == nil && broken {
		return exit.With(exit.Snapshot, nil)
	}
	return err
}

func showIndex(ctx context.Context, r repo.Repository, s *snapshot.Snapshot, name string) shownIndex {
	out := shownIndex{Index: name}
	x, err := s.Index(ctx, name)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.State, out.Sources = x.State, plan.SourcesOf(x, "")
	for _, m := range x.Mappings {
		out.Types = append(out.Types, m.Type)
	}
	out.Shards = make([]shownShard, x.NumShards)
	var g errgroup.Group
	g.SetLimit(shownAtOnce)
	for n := range out.Shards {
		g.Go(func() error {
			out.Shards[n] = showShard(ctx, r, s, x.Locator, n)
			return nil
		})
	}
	g.Wait() //nolint:errcheck // a shard keeps its own error
	for _, shard := range out.Shards {
		out.Documents += shard.Documents
		out.Deleted += shard.Deleted
		out.Bytes += shard.Bytes
	}
	return out
}

// shownAtOnce is the maximum number of shards that are opened concurrently.
const shownAtOnce = 4

func showShard(ctx context.Context, r repo.Repository, of *snapshot.Snapshot, loc snapshot.Locator, n int) shownShard {
	out := shownShard{Shard: n}
	err := func() error {
		s, err := snapshot.OpenShard(ctx, r, loc, n)
		if err != nil {
			return err
		}
		out.Bytes = s.TotalBytes
		commit, err := lucene.Open(ctx, s.Directory(), lucene.Options{})
		if err != nil {
			return err
		}
		out.Segments, out.Documents = len(commit.Segments), commit.LiveDocs
		out.Deleted = commit.MaxOrdinal - commit.LiveDocs
		for _, seg := range commit.Segments {
			out.Lucene = append(out.Lucene, seg.Version)
			out.Stored = append(out.Stored, seg.StoredFormat)
		}
		out.Lucene, out.Stored = distinct(out.Lucene), distinct(out.Stored)
		return nil
	}()
	if reason := of.Absence(loc.IndexName, n); reason != "" && errors.Is(err, snapshot.ErrShardMissing) {
		out.Missing = reason
	} else if err != nil {
		out.Error = err.Error()
	}
	return out
}

func distinct(s []string) []string {
	slices.Sort(s)
	return slices.DeleteFunc(slices.Compact(s), func(x string) bool { return x == "" })
}

func tableOf(w io.Writer, indices []shownIndex) error {
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "INDEX\tSHARD\tSEGMENTS\tDOCUMENTS\tDELETED\tBYTES\tLUCENE\tSTORED FIELDS")
	for _, x := range indices {
		if x.Error != "" {
			fmt.Fprintf(t, "%s\t\t\t\t\t\t%s\n", x.Index, x.Error)
		}
		for _, s := range x.Shards {
			progress.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s%s\n", x.Index, strconv.Itoa(s.Shard), s.Segments, s.Documents, s.Deleted, progress.Bytes(s.Bytes),
				strings.Join(s.Lucene, " "), strings.Join(s.Stored, " "), missing(s.Missing)+s.Error)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	writeSources(w, indices)
	return nil
}

// writeSources names the indices whose sources are not stored whole.
func writeSources(w io.Writer, indices []shownIndex) {
	var same terminal.Grouped
	for _, x := range indices {
		if s := x.Sources; x.Error == "" && s.State != plan.SourcesStored {
			same.Add(x.Index, "%s: sources "+terminal.Escaped(fmt.Sprintf("%s: %s", s.State, s)))
		}
	}
	same.Write(w, "")
}

func missing(reason string) string {
	if reason == "" {
		return ""
	}
	return "not in the snapshot: " + reason
}
