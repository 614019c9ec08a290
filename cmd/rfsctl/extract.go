package main

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/extract"
)

const extractHelp = `Writes the saved objects of Kibana or OpenSearch Dashboards (index patterns, searches,
visualizations, dashboards) as NDJSON files, which OpenSearch Dashboards imports: one file for
the default space, and one for each other space or tenant. Index patterns are renamed as
--index-rename and --rules rename indices. Types of objects that OpenSearch Dashboards does not
import are left out and listed. Roles, their mappings, tenants, action groups and, with
--with-users, users of OpenSearch's security plugin are written as YAML files of the plugin,
for review. Policies that take snapshots (SLM of Elasticsearch, Snapshot Management of
OpenSearch) become one JSON file each, the body of the request in the last column.`

func extractSnapshot(ctx context.Context, call *config.Call, o config.ExtractSnapshot) error {
	_, catalog, err := open(ctx, call, o.Snapshots.Repository)
	if err != nil {
		return unreadable(err)
	}
	s, err := catalog.Snapshot(ctx, o.Snapshot.Name)
	if err != nil {
		return unreadable(err)
	}
	x := extract.Options{Overrides: metadata.Overrides{Rename: o.Names.Rename}, Users: o.Files.Users}
	if o.Rules.Path != "" {
		if x.Rules, err = rules.Load(o.Rules.Path); err != nil {
			return err
		}
	}
	done, err := extract.Files(ctx, s, o.Files.Dir, x)
	if err != nil {
		return unreadable(err)
	}
	if call.Out.JSON {
		return call.Out.Result(done)
	}
	t := terminal.NewTable(call.Out)
	fmt.Fprintln(t, "FILE\tOBJECTS\tAPPLY WITH")
	for _, f := range done.Files {
		progress.Fprintf(t, "%s\t%d\t%s\n", f.Name, f.Objects, f.Apply)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range done.Left {
		progress.Fprintf(call.Out, "left out: %d × %s: %s\n", l.Count, l.What, l.Reason)
	}
	return nil
}
