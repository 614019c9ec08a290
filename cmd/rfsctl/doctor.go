package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/doctor"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const doctorHelp = `Checks before a migration that the repository can be read, that the target permits every call of
a migration, its version, health, disks, heap and limits, the clocks, and the names of the
indices. No document is written: a permission is tested with a request that must fail for another
reason, so that the answer is either forbidden or invalid. Where only an index can show it
(indexing into names that do not exist yet), an empty one with the name NAME-rfsd-doctor-RANDOM
is created and removed at once. Each finding states what to do.

Warnings exit with 0, problems with 7.`

func doctorCommand() *cli.Command {
	return config.Command(cli.Command{Name: "doctor", Usage: "check repository and target before a migration", Description: doctorHelp}, examine)
}

func examine(ctx context.Context, call *config.Call, o config.Doctor) error {
	blobs, _, err := open(ctx, call, o.Snapshots.Repository)
	if err != nil {
		return err
	}
	plan, err := plan.New(ctx, blobs, plan.Request{
		SnapshotName: o.Snapshot.Name, Indices: o.Indices.Selection(), IncludeSystem: o.System.Include, AllowPartial: true, Sizes: true,
		MultiType: plan.SplitTypes, EmitType: plan.EmitAuto,
	})
	if err != nil {
		return unreadable(err)
	}
	found := repositoryFindings(plan)
	client, err := connect(ctx, call, o.Target.Cluster, "target")
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing was written through it
	found = append(found, sourceFindings(ctx, plan, client, o.Confirm.AllowSource)...)
	needs := needsOf(plan)
	needs.BulkBytes, needs.Tolerance, needs.Session, needs.Now = int64(o.Size.Bytes), o.Skew.Tolerance, o.Session.Name, time.Now
	found = append(found, doctor.Target(ctx, client, needs)...)
	return showFindings(call, o.Snapshots.Output, found)
}

// sourceFindings compares the target with the cluster that the snapshot was taken of.
func sourceFindings(ctx context.Context, plan *plan.Plan, client *target.Client, allowed bool) []doctor.Finding {
	v, err := client.Info(ctx)
	if err != nil {
		return nil // the checks of the target report it
	}
	warning, err := worker.CheckSource(ctx, plan, v.ClusterUUID, client, allowed)
	switch {
	case errors.Is(err, worker.ErrSourceIsTarget):
		return []doctor.Finding{{Check: "target is not the source", Level: doctor.Bad, Detail: fault.Text(err), Remedy: "check --target-host; rename the indices, or confirm with --allow-source-as-target"}}
	case err != nil:
		return []doctor.Finding{{Check: "target is not the source", Level: doctor.Skipped, Detail: fault.Text(err)}}
	case warning != "":
		return []doctor.Finding{{Check: "target is not the source", Level: doctor.Warning, Detail: warning}}
	}
	return []doctor.Finding{{Check: "target is not the source", Level: doctor.Good}}
}

func repositoryFindings(p *plan.Plan) []doctor.Finding {
	all := []doctor.Finding{{Check: "repository and snapshot", Level: doctor.Good, Detail: fmt.Sprintf("%s is %s, %d indices", p.Snapshot, p.State, len(p.Indices))}}
	for _, w := range p.Warnings {
		all = append(all, doctor.Finding{Check: "repository", Level: doctor.Warning, Detail: w})
	}
	for _, m := range p.Missing {
		all = append(all, doctor.Finding{Check: "snapshot", Level: doctor.Bad, Detail: "it lacks " + m, Remedy: "take another snapshot, or migrate the rest with --allow-partial"})
	}
	for _, x := range p.Unread {
		all = append(all, doctor.Finding{Check: "index " + x.Name, Level: doctor.Bad, Detail: "its metadata is damaged: " + x.Reason, Remedy: "the index fails alone; take another snapshot, or leave it out with --index-exclude"})
	}
	for _, x := range p.Indices {
		if s := plan.SourcesOf(x.Source, x.Entry.Rebuild); s.State != plan.SourcesStored {
			all = append(all, sourcesFinding(x.Name, s))
		}
		for n, b := range x.Entry.Bytes {
			if b == 0 && x.Entry.Shards > 0 && p.State != string(snapshot.Success) {
				all = append(all, doctor.Finding{Check: "index " + x.Name, Level: doctor.Warning, Detail: fmt.Sprintf("shard %d has no files in this snapshot", n)})
			}
		}
	}
	return all
}

// sourcesFinding returns in what form the snapshot holds the documents of an index whose sources are not stored whole. That
// all of its fields are rebuilt is no reason for a warning.
func sourcesFinding(index string, s plan.Sources) doctor.Finding {
	f := doctor.Finding{Check: "sources of " + index, Level: doctor.Warning, Detail: fmt.Sprintf("%s: %s", s.State, s), Remedy: s.Remedy}
	if s.Remedy == "" {
		f.Level = doctor.Good
	}
	return f
}

func needsOf(plan *plan.Plan) doctor.Needs {
	n := doctor.Needs{Fields: map[string]doctor.Fields{}}
	for _, x := range plan.Indices {
		replicas, err := strconv.Atoi(x.Source.Settings["index.number_of_replicas"])
		if err != nil || replicas < 0 {
			replicas = 0
		}
		for _, name := range x.Entry.Naming.Targets() {
			n.Names = append(n.Names, name)
			n.Shards += x.Entry.Shards * (1 + replicas)
		}
		for _, b := range x.Entry.Bytes {
			n.Bytes += b * int64(1+replicas)
		}
		limit, err := strconv.Atoi(x.Source.Settings["index.mapping.total_fields.limit"])
		if err != nil {
			limit = 1000
		}
		count := 0
		for _, m := range x.Source.Mappings {
			var body any
			if json.Unmarshal(m.Body, &body) == nil {
				count += countFields(body)
			}
		}
		n.Fields[x.Name] = doctor.Fields{Count: count, Limit: limit}
	}
	return n
}

// countFields counts as OpenSearch does: objects, fields and fields of fields.
func countFields(v any) int {
	m, ok := v.(map[string]any)
	if !ok {
		return 0
	}
	n := 0
	for _, key := range []string{"properties", "fields"} {
		inner, ok := m[key].(map[string]any)
		if !ok {
			continue
		}
		for _, field := range inner {
			n += 1 + countFields(field)
		}
	}
	return n
}

func showFindings(call *config.Call, out config.Output, found []doctor.Finding) error {
	bad := 0
	for _, f := range found {
		if f.Level == doctor.Bad {
			bad++
		}
	}
	if out.JSON() {
		if err := printJSON(call.Out, found); err != nil {
			return err
		}
	} else {
		t := tabwriter.NewWriter(call.Out, 0, 0, 2, ' ', 0)
		for _, f := range found {
			fmt.Fprintf(t, "%s\t%s\t%s\n", f.Level, f.Check, terminal.Clean(f.Detail))
			if f.Remedy != "" {
				fmt.Fprintf(t, "\t\t→ %s\n", f.Remedy)
			}
		}
		t.Flush()
	}
	if bad > 0 {
		return exit.With(exit.Parts, fmt.Errorf("%d problems", bad))
	}
	return nil
}
