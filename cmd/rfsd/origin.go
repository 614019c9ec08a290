package main

import (
	"maps"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

// origin is the source cluster and how the snapshot is created on it.
type origin struct {
	cluster  target.Config
	derived  bool // the session creates the snapshot, under a name that follows from its settings
	name     string
	kind     string            // of the repository: fs or s3
	settings map[string]string // of the repository, as the source takes them
	maxRate  string
	global   bool
	retry    bool
	noWait   bool
}

// derive takes over the source cluster.
func (o *options) derive(from config.Origin) error {
	if from.Cluster.Host == "" {
		return nil
	}
	o.origin = origin{
		cluster: o.cluster(from.Cluster, "source"), derived: o.snapshot == "", name: from.Repository, kind: from.Type, maxRate: from.MaxRate,
		global: !from.WithoutGlobalState, retry: from.Retry, noWait: from.NoWait,
	}
	return o.origin.repository(o, from.Location, from.Settings)
}

// repository derives the settings of the repository on the source.
func (g *origin) repository(o *options, location string, more map[string]string) error {
	scheme, rest, ok := strings.Cut(o.repoURI, "://")
	if !ok {
		scheme, rest = "file", o.repoURI
	}
	if g.kind == "" {
		g.kind = map[string]string{"file": "fs", "s3": "s3"}[scheme]
	}
	if location == "" {
		location = rest
	}
	g.settings = map[string]string{}
	switch g.kind {
	case "fs":
		if location == rest && scheme == "file" {
			abs, err := filepath.Abs(location)
			if err != nil {
				return config.Usage("--repo-uri: %w", err)
			}
			location = abs
		}
		if !filepath.IsAbs(location) {
			return config.Usage("--source-repo-location %q: the path of a repository on the source is absolute", location)
		}
		g.settings["location"] = location
	case "s3":
		u, err := url.Parse("s3://" + strings.TrimPrefix(location, "s3://"))
		if err != nil || u.Host == "" {
			return config.Usage("--source-repo-location %q is not bucket/prefix", location)
		}
		g.settings["bucket"] = u.Host
		if prefix := strings.Trim(u.Path, "/"); prefix != "" {
			g.settings["base_path"] = prefix
		}
		if o.s3.Region != "" {
			g.settings["region"] = o.s3.Region
		}
	default:
		return config.Usage("--source-repo-type is missing: is the repository %s of the type fs or s3?", o.repoURI)
	}
	maps.Copy(g.settings, more)
	if g.maxRate != "" {
		g.settings["max_snapshot_bytes_per_sec"] = g.maxRate
	}
	return nil
}

// snapshotOptions say which snapshot is read, or created under a name that every worker derives.
func (o options) snapshotOptions(settings map[string]string) phase.SnapshotOptions {
	s := phase.SnapshotOptions{
		Name: o.snapshot, Derived: o.origin.derived, Repository: o.origin.name, Retry: o.origin.retry, AllowPartial: o.allowPartial, NoWait: o.origin.noWait,
	}
	if s.Derived {
		s.Name = session.SnapshotName(o.session, settings)
	}
	return s
}
