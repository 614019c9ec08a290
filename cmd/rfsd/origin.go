package main

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/target"
	"github.com/rfsd/rfsd/rfs/worker"
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

const originFlagsCategory = "Source cluster"

// originFlags name the source cluster, on which the snapshot is created.
func originFlags() []cli.Flag {
	return append(clusterFlags(originFlagsCategory, "source", "URL of the source cluster: the snapshot is created there"),
		str(originFlagsCategory, "snapshot-repo-name", "rfsd", "name under which the source knows the repository; it is registered when it is not there"),
		str(originFlagsCategory, "source-repo-type", "", "type of the repository on the source, fs or s3 (default: by --repo-uri)"),
		str(originFlagsCategory, "source-repo-location", "", "where the repository is as the source sees it: a path, or bucket/prefix (default: as in --repo-uri)"),
		list(originFlagsCategory, "source-repo-setting", "further setting of the repository on the source, KEY=VALUE, such as role_arn=…; may be repeated"),
		str(originFlagsCategory, "snapshot-max-rate", "", "most bytes per second that each node of the source writes, such as 40mb"),
		yes(originFlagsCategory, "without-global-state", "leave the cluster's state (templates and the like) out of the snapshot"),
		yes(originFlagsCategory, "snapshot-no-wait", "begin the snapshot, or look at it once; while the source makes it, end with the exit code 4 (default: wait for it)"),
		yes(originFlagsCategory, "retry-snapshot", "after a failed snapshot, create another under the name with -2"),
	)
}

var byteRate = regexp.MustCompile(`^[1-9][0-9]{0,8}(b|kb|mb|gb)$`)

// checkOrigin reads the flags of the source cluster.
func (o *options) checkOrigin(c *cli.Context) error {
	if c.String("source-host") == "" {
		return nil
	}
	var err error
	if o.origin.cluster, err = o.cluster(c, "source"); err != nil {
		return err
	}
	g := &o.origin
	g.derived = o.snapshot == ""
	g.name, g.kind, g.maxRate = c.String("snapshot-repo-name"), c.String("source-repo-type"), c.String("snapshot-max-rate")
	g.global, g.retry = !c.Bool("without-global-state"), c.Bool("retry-snapshot")
	g.noWait = c.Bool("snapshot-no-wait")
	if g.maxRate != "" && !byteRate.MatchString(g.maxRate) {
		return usage("--snapshot-max-rate %q is not a size such as 40mb", g.maxRate)
	}
	if g.name == "" || strings.ContainsAny(g.name, "/*?\"<>| ,#") {
		return usage("--snapshot-repo-name %q is no name of a repository", g.name)
	}
	return g.repository(o, c.String("source-repo-location"), c.StringSlice("source-repo-setting"))
}

// repository derives the settings of the repository on the source.
func (g *origin) repository(o *options, location string, more []string) error {
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
				return usage("--repo-uri: %w", err)
			}
			location = abs
		}
		if !filepath.IsAbs(location) {
			return usage("--source-repo-location %q: the path of a repository on the source is absolute", location)
		}
		g.settings["location"] = location
	case "s3":
		u, err := url.Parse("s3://" + strings.TrimPrefix(location, "s3://"))
		if err != nil || u.Host == "" {
			return usage("--source-repo-location %q is not bucket/prefix", location)
		}
		g.settings["bucket"] = u.Host
		if prefix := strings.Trim(u.Path, "/"); prefix != "" {
			g.settings["base_path"] = prefix
		}
		if o.s3.Region != "" {
			g.settings["region"] = o.s3.Region
		}
	default:
		return usage("--source-repo-type %q is not fs or s3", g.kind)
	}
	for _, setting := range more {
		key, value, ok := strings.Cut(setting, "=")
		if !ok || key == "" {
			return usage("--source-repo-setting %q is not KEY=VALUE", setting)
		}
		g.settings[key] = value
	}
	if g.maxRate != "" {
		g.settings["max_snapshot_bytes_per_sec"] = g.maxRate
	}
	return nil
}

// snapshotOptions say which snapshot is read, or created under a name that every worker derives.
func (o options) snapshotOptions(settings map[string]string) worker.SnapshotOptions {
	s := worker.SnapshotOptions{
		Name: o.snapshot, Derived: o.origin.derived, Repository: o.origin.name, Retry: o.origin.retry, AllowPartial: o.allowPartial, NoWait: o.origin.noWait,
	}
	if s.Derived {
		s.Name = cms.SnapshotName(o.session, settings)
	}
	return s
}
