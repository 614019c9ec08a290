package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/dashboards"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
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
OpenSearch) become one JSON file each, the body of the request in the last column.

With --dashboards-host the saved objects are also imported there, each file into the tenant of
its name, the default space into the global tenant. Objects that exist stay as they are. The
command lists them and each object that OpenSearch Dashboards refuses (exit code 7). It may be
repeated with another directory.`

// extracted is the result of rfsctl snapshot extract.
type extracted struct {
	extract.Result
	DryRun  bool           `json:"dry_run,omitempty"`
	Imports []importedFile `json:"imports,omitempty"`
}

// importedFile is a file that was imported, or in a dry run would be.
type importedFile struct {
	File string `json:"file"`
	dashboards.Result
}

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
	files, err := extract.Files(ctx, s, o.Files.Dir, x)
	if err != nil {
		return unreadable(err)
	}
	done := extracted{Result: files, DryRun: o.Importing.Dry.Run}
	if o.Importing.Cluster.Host != "" {
		done.Imports, err = importFiles(ctx, call, o, files.Files)
	}
	if call.Out.JSON {
		err = errors.Join(err, call.Out.Result(done))
	} else {
		err = errors.Join(err, done.write(call.Out))
	}
	for _, f := range done.Imports {
		if err == nil && !f.Complete() {
			return exit.With(exit.Parts, nil)
		}
	}
	return err
}

// importFiles imports files into OpenSearch Dashboards, and returns the outcome of each up to an error.
func importFiles(ctx context.Context, call *config.Call, o config.ExtractSnapshot, files []extract.File) (all []importedFile, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the connections
	conf := o.Importing.Cluster.Config("dashboards", "rfsctl/"+version, 0)
	conf.Memory = call.Memory
	for _, risk := range conf.Risks() {
		fmt.Fprintln(call.Err, "rfsctl: warning:", risk)
	}
	i := dashboards.Importer{DryRun: o.Importing.Dry.Run, Connect: func(ctx context.Context, tenant string) (dashboards.API, error) {
		c := conf
		c.Headers = conf.Headers.Clone()
		c.Headers.Set("osd-xsrf", "true")
		if tenant != "" {
			c.Headers.Set("securitytenant", tenant)
		}
		return target.New(ctx, c)
	}}
	for _, f := range files {
		if filepath.Ext(f.Name) != ".ndjson" {
			continue
		}
		r, err := i.Import(ctx, dashboards.File{Path: filepath.Join(o.Files.Dir, f.Name), Tenant: f.Tenant})
		all = append(all, importedFile{f.Name, r})
		if err != nil {
			return all, fmt.Errorf("import of %s: %w", f.Name, err)
		}
	}
	return all, nil
}

// write writes the result as tables and lists.
func (e extracted) write(w io.Writer) error {
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "FILE\tOBJECTS\tAPPLY WITH")
	for _, f := range e.Files {
		progress.Fprintf(t, "%s\t%d\t%s\n", f.Name, f.Objects, f.Apply)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range e.Left {
		progress.Fprintf(w, "left out: %d × %s: %s\n", l.Count, l.What, l.Reason)
	}
	if len(e.Imports) == 0 {
		return nil
	}
	imported := "IMPORTED"
	if e.DryRun {
		imported = "TO IMPORT"
	}
	fmt.Fprintln(w)
	t = terminal.NewTable(w)
	fmt.Fprintf(t, "FILE\tTENANT\t%s\tEXISTING\tREFUSED\n", imported)
	for _, f := range e.Imports {
		progress.Fprintf(t, "%s\t%s\t%d\t%d\t%d\n", f.File, terminal.Clean(f.Tenant), len(f.Imported), len(f.Existing), len(f.Refused))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	line := func(is, file, text string) { fmt.Fprintf(w, "%s: %s: %s\n", is, file, terminal.Clean(text)) }
	for _, f := range e.Imports {
		if f.Skipped != "" {
			line("not imported", f.File, f.Skipped)
		}
		for _, o := range f.Existing {
			line("exists, and stays", f.File, o.String())
		}
		for _, o := range f.Refused {
			line("refused", f.File, o.Object.String()+": "+o.Reason)
		}
	}
	return nil
}
