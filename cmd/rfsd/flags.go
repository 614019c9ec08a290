package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/bulk"
)

// env gives every flag its variable: --repo-uri is RFS_REPO_URI.
func env(flag string) []string {
	return []string{"RFS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
}

func str(category, name, value, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Value: value, Usage: usage, EnvVars: env(name), Category: category}
}

func list(category, name, usage string) cli.Flag {
	return &cli.StringSliceFlag{Name: name, Usage: usage, EnvVars: env(name), Category: category}
}

func num(category, name string, value int, usage string) cli.Flag {
	return &cli.IntFlag{Name: name, Value: value, Usage: usage, EnvVars: env(name), Category: category}
}

func yes(category, name, usage string) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, EnvVars: env(name), Category: category}
}

const (
	source      = "Source"
	targetFlags = "Target"
	output      = "Export instead of a target"
	selection   = "What is migrated"
	work        = "How the work is done"

	coordination = "Coordination"
)

// sourceFlags name the snapshot, how its repository is reached, and where it is created.
func sourceFlags() []cli.Flag {
	return append([]cli.Flag{
		str(source, "repo-uri", "", "snapshot repository: file:///path, a path, or s3://bucket/prefix"),
		list(source, "remote-store-uri", "URI or NAME=URI of a remote store that a shallow snapshot of OpenSearch refers to (default: the repository itself); may be repeated"),
		str(source, "snapshot-name", "", "name of the snapshot; without it, one is created on --source-host"),
		str(source, "s3-region", "", "region of the bucket"),
		str(source, "s3-endpoint", "", "endpoint of an S3-compatible store"),
		yes(source, "s3-path-style", "address buckets by path instead of by host name"),
		str(source, "s3-role-arn", "", "role to assume for reading the bucket"),
		yes(source, "s3-requester-pays", "pay for the requests to a requester-pays bucket"),
		yes(source, "allow-partial", "migrate what a PARTIAL or FAILED snapshot holds (exit code 7 names what is missing); with --from, import an export that is not complete or of which files lack or differ"),
		yes(source, "verify-first", "read and check each shard completely before sending anything of it (reads it twice)"),
	}, originFlags()...)
}

// clusterFlags are the flags of one cluster: source, target or coordinator.
func clusterFlags(category, which, host string) []cli.Flag {
	return append([]cli.Flag{
		str(category, which+"-host", "", host),
		str(category, which+"-username", "", "user for basic authentication"),
		str(category, which+"-password-file", "", "file holding the password (or set "+env(which + "-password")[0]+")"),
		str(category, which+"-password", "", "password; visible to other users of this machine, prefer the file or the variable"),
		yes(category, which+"-insecure", "do not verify the certificate"),
		str(category, which+"-cacert", "", "PEM file of the authority that signed the certificate; those of the system do not count then"),
		str(category, which+"-client-cert", "", "PEM file of a client certificate"),
		str(category, which+"-client-cert-key", "", "PEM file of the client certificate's key"),
	}, sigV4Flags(category, which)...)
}

// destinationFlags name the cluster, or what is done instead.
func destinationFlags() []cli.Flag {
	return append(append(clusterFlags(targetFlags, "target", "URL of the target cluster"), careFlags()...),
		yes(targetFlags, "run-pipelines", "let the target's default pipelines change documents (otherwise pipeline=_none)"),
		yes(targetFlags, "allow-source-as-target", "write into the cluster that the snapshot was taken of, also into its own indices"),
		yes(targetFlags, "accept-reduced-sources", "end with exit code 0 although the snapshot lacks parts of some sources (documents counted as reduced)"),
		yes(targetFlags, "disable-compression", "send request bodies uncompressed (to this machine they always are)"),
		str(output, "export-dir", "", "write bulk NDJSON files to this directory instead of a cluster"),
		str(output, "export-compression", "none", "none, gzip or zstd; gzip:LEVEL (1-9) and zstd:LEVEL (1-22) trade time for bytes (default levels: 6 and the fastest, 1)"),
		yes(output, "discard", "read everything, build the bulk bodies and send nothing (rehearsal, benchmark)"),
	)
}

// coordinationFlags say where the state of the work is kept, and the rules of leases.
func coordinationFlags() []cli.Flag {
	return append(clusterFlags(coordination, "coordinator", "URL of an OpenSearch that keeps the state of the work (default: the target)"),
		str(coordination, "coordinator-file", "", "file that keeps the state of the work, for one process (default for an export: DIR/.rfsd/coordinator.db)"),
		str(coordination, "session-name", "", "name of this migration ([a-z0-9-], at most 64); a new name starts afresh"),
		str(coordination, "initial-lease-duration", "PT10M", "first lease of a work item, as PT10M or 10m; doubles with each attempt, at most 6h"),
		str(coordination, "clock-skew-tolerance", "PT15S", "refuse leases when this machine's clock is further off the coordinator's; 0s: off"),
	)
}

// selectionFlags say which documents take part and under which names.
func selectionFlags() []cli.Flag {
	return []cli.Flag{
		str(selection, "phases", "", "which of snapshot,metadata,indices,documents to run (default: all that the options make possible)"),
		list(selection, "index-allowlist", "index to migrate: a name, a pattern such as logs-*, or regex:PATTERN; may be repeated (default: all)"),
		list(selection, "index-exclude", "index to leave out, also when --index-allowlist selects it: a name, a pattern such as logs-*, or regex:PATTERN; may be repeated"),
		list(selection, "template-allowlist", "legacy template to migrate: a name, a pattern such as logs-*, or regex:PATTERN; may be repeated (default: all)"),
		list(selection, "component-template-allowlist", "component template to migrate, likewise"),
		list(selection, "index-template-allowlist", "index template to migrate, likewise"),
		list(selection, "include", "what else of the cluster's state is migrated: pipelines, scripts, policies (ILM, as ISM), managed; may be repeated"),
		hiddenRules(),
		str(selection, "rules", "", "file with your own rules for names, metadata and documents (see docs/RULES-FILE.md)"),
		str(selection, "aliases", "", "when aliases of created indices are set: early, or late: when all documents have arrived (default: late where one is for writing or has a filter)"),
		str(selection, "replicas", "", "replicas of created indices (default: as at the source)"),
		list(selection, "shards", "shards of created indices, PATTERN=NUMBER such as logs-*=3; may be repeated, the first that matches counts"),
		list(selection, "index-rename", "names of indices on the target, PATTERN=NAME such as logs-*=old-$1 or regex:logs-(.*)=old-$1; may be repeated, the first that matches counts"),
		list(selection, "without-rule", "conversion rule that is not applied, by its name; may be repeated"),
		yes(selection, "include-system", "migrate indices whose names begin with a dot, too"),
		str(selection, "data-streams", "index", "backing indices of data streams: index makes them ordinary indices behind an alias of the stream's name; create writes their documents into a data stream of the target"),
		str(selection, "multi-type", "split", "several mapping types in one index: split into <index>_<type>, or union with ids <type>#<id>"),
		str(selection, "emit-doc-type", "AUTO", "write mapping types into the bulk actions: AUTO, ON or OFF; ON keeps index and type as they were"),
	}
}

// workFlags bound the run.
func workFlags() []cli.Flag {
	return []cli.Flag{
		num(work, "slots", 0, "shards read at the same time (0: one per processor, at most 8)"),
		num(work, "documents-per-bulk-request", 0, "most documents in one request (0: no limit)"),
		num(work, "documents-size-per-bulk-request", bulk.DefaultMaxBytes, "most bytes in one request; a larger document goes alone"),
		num(work, "max-connections", defaultConnections, "most requests under way at the same time, over all slots"),
		str(work, "max-rate", "0", "most megabytes (10^6 bytes) of bulk bodies per second to send or to export, over all slots; of a fleet, over all its nodes (0: no limit)"),
		list(work, "first", "index whose shards are done first: a name, a pattern such as logs-*, or regex:PATTERN; may be repeated, in order"),
		list(work, "index-priority", "PATTERN=N such as users=5 or logs-*=-1: a higher N is done earlier (default 0); may be repeated"),
		str(work, "failed-documents", "", "directory, or s3://bucket/prefix (with the --s3 options of the source), for documents that were refused (default: ./rfsd-failed/<session>; with --discard they are only counted)"),
		yes(work, "failed-documents-shared", "all processes see the directory of --failed-documents: the control index need not tell which documents were refused"),
		str(work, "max-failed-documents", "1000", "pause an index after so many refusals that exceed 10 % of what was sent to it; or unlimited"),
		str(work, "unavailable-timeout", "PT2M", "give up when the target has not answered for so long"),
		str(work, "output", "text", "summary as text or json"),
		str(work, "log-level", "info", "debug, info, warn or error"),
	}
}

const (
	defaultConnections = 4
)
