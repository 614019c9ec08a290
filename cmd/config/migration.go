package config

import (
	"cmp"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/base/secret"
)

// Target is the cluster to which documents go.
type Target struct {
	Cluster Cluster `prefix:"target-" group:"Target" section:"target" help:"URL of the target cluster, which also keeps the state of the migration by default; may be repeated, for several addresses that share the documents (one without an answer is left out)"`
}

// Confirmation allows actions that are rejected otherwise.
type Confirmation struct {
	_           struct{} `group:"Target" section:"target"`
	AllowSource bool     `flag:"allow-source-as-target" help:"write into the cluster that the snapshot was taken of, also into its own indices"`
}

// Acceptance lists the deficiencies that still count as an end without losses.
type Acceptance struct {
	_       struct{} `group:"Target" section:"target"`
	Reduced bool     `flag:"accept-reduced-sources" help:"end with exit code 0 although the snapshot lacks parts of some sources (documents counted as reduced)"`
}

// Sending holds the options of sending documents to the target.
type Sending struct {
	_                  struct{} `group:"Target" section:"target"`
	RunPipelines       bool     `flag:"run-pipelines" help:"let the target's default pipelines change documents (otherwise pipeline=_none)"`
	AllowDuplicates    bool     `flag:"allow-duplicates" help:"send to a collection of OpenSearch Serverless that gives documents ids of its own, where documents that are sent again after a crash or a lost answer are there twice"`
	DisableCompression bool     `flag:"disable-compression" help:"send requests and accept responses uncompressed (on loopback they always are; elsewhere documents are compressed while that makes them arrive faster)"`
}

// Existing selects the handling of documents that the target already has.
type Existing struct {
	_         struct{} `group:"Target" section:"target"`
	Documents string   `flag:"existing-documents" oneof:"overwrite,keep,newer," want:"overwrite, keep or newer" help:"decide about documents whose ids the target has: overwrite replaces them, keep leaves them, newer replaces older versions; required when target indices hold documents (else overwrite)"`
}

// Tuning changes settings of the target while documents come.
type Tuning struct {
	_    struct{} `group:"Protection of the target" section:"care"`
	Tune bool     `flag:"tune-target" help:"set number_of_replicas to 0, too, on created indices while documents are sent; settings are restored at the end, also after a crash, or by rfsctl target restore"`
	Keep bool     `flag:"no-tune-target" help:"do not change index settings while documents are sent"`
}

// Disks selects the handling of full disks on the target.
type Disks struct {
	_      struct{} `group:"Protection of the target" section:"care"`
	Ignore bool     `flag:"ignore-disks" help:"send documents even while a node of the target is above its high disk watermark (otherwise indexing pauses until it is below)"`
}

// Export holds the destination of documents that do not go to a cluster.
type Export struct {
	_           struct{}    `group:"Export instead of a target" section:"export"`
	Dir         string      `flag:"export-dir" check:"place" help:"write bulk NDJSON files to this directory, or to s3://bucket/prefix, gs://bucket/prefix or azblob://container/prefix, instead of a cluster"`
	Compression Compression `flag:"export-compression" default:"none" help:"none, gzip or zstd; gzip:LEVEL (1-9) and zstd:LEVEL (1-22) trade time for bytes (default levels: 6 and the fastest, 1)"`
	Discard     bool        `flag:"discard" help:"read everything, build the bulk bodies and send nothing (dry run, benchmark)"`
}

// Check refuses credentials in the address of a bucket.
func (e *Export) Check() error {
	if secret.In("export-dir", e.Dir) {
		return Usage("%s: no user, password or key belongs in the address of a bucket: use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, --gcs-key-file, --azure-key-file, or a role", secret.Text(e.Dir))
	}
	e.Dir = strings.TrimPrefix(e.Dir, "file://")
	return nil
}

// outside refuses an export into the bucket of the repository, to which nothing is ever written.
func (e Export) outside(repository string) error {
	if inside(e.Dir, repository) {
		return Usage("--export-dir %s lies in %s, to which nothing is ever written", e.Dir, repository)
	}
	return nil
}

// Indices selects indices.
type Indices struct {
	_       struct{} `group:"Selection and conversion" section:"selection"`
	Include Patterns `flag:"index-allowlist" help:"index to migrate: a name, a pattern such as logs-*, or regex:PATTERN; may be repeated (default: all)"`
	Exclude Patterns `flag:"index-exclude" help:"index to leave out, also when --index-allowlist selects it: a name, a pattern such as logs-*, or regex:PATTERN; may be repeated"`
}

// Selection returns the indices that are selected.
func (i Indices) Selection() pattern.Selection { return i.Include.Selection(i.Exclude) }

// System selects whether system indices are included.
type System struct {
	_       struct{} `group:"Selection and conversion" section:"selection"`
	Include bool     `flag:"include-system" help:"also migrate indices whose names start with a dot"`
}

// Types selects the handling of mapping types in bulk actions.
type Types struct {
	_    struct{} `group:"Selection and conversion" section:"selection"`
	Emit string   `flag:"emit-doc-type" default:"AUTO" oneof:"AUTO,ON,OFF" help:"write mapping types into the bulk actions: AUTO, ON or OFF; ON keeps index and type as they were"`
}

// RulesFile holds the user's rules.
type RulesFile struct {
	_    struct{} `group:"Selection and conversion" section:"selection"`
	Path string   `flag:"rules" check:"file" help:"file with your own rules for names, metadata and documents (see docs/RULES-FILE.md)"`
}

// IndexNames renames indices.
type IndexNames struct {
	_      struct{}    `group:"Selection and conversion" section:"selection"`
	Rename RenameRules `flag:"index-rename" help:"names of indices on the target, PATTERN=NAME such as logs-*=old-$1 or regex:logs-(.*)=old-$1; may be repeated; the first match applies"`
}

// Conversion selects the other objects to include, and new names.
type Conversion struct {
	_                  struct{} `group:"Selection and conversion" section:"selection"`
	Phases             Phases   `flag:"phases" help:"which of snapshot,metadata,indices,documents to run (default: all that the options make possible)"`
	Templates          Patterns `flag:"template-allowlist" help:"legacy template to migrate: a name, a pattern such as logs-*, or regex:PATTERN; may be repeated (default: all)"`
	ComponentTemplates Patterns `flag:"component-template-allowlist" help:"component template to migrate, likewise"`
	IndexTemplates     Patterns `flag:"index-template-allowlist" help:"index template to migrate, likewise"`
	Include            Objects  `flag:"include" want:"pipelines, scripts, policies, attachments or managed" help:"what else of the cluster's state is migrated: pipelines, scripts, policies (ISM; ILM becomes ISM), attachments (of policies to indices, at the end), managed; may be repeated"`
	RulesText          string   `flag:"rules-text" hidden:"yes" variable:"none" section:"none" help:"--rules by its content, as nodes share it"`
	Rules              RulesFile
	Aliases            string     `flag:"aliases" oneof:"early,late," want:"early or late" help:"when aliases of created indices are set: early, or late: when all documents have arrived (default: late where one is for writing or has a filter)"`
	Replicas           Replicas   `flag:"replicas" want:"a number, 0 or more" help:"replicas of created indices (default: as at the source)"`
	Shards             ShardRules `flag:"shards" help:"shards of created indices, PATTERN=NUMBER such as logs-*=3; may be repeated; the first match applies"`
	Names              IndexNames
	WithoutRules       RuleNames `flag:"without-rule" help:"conversion rule that is not applied, by its name; may be repeated"`
	DataStreams        string    `flag:"data-streams" default:"index" oneof:"index,create" help:"backing indices of data streams: index makes them ordinary indices behind an alias of the stream's name; create writes their documents into a data stream of the target"`
	MultiType          string    `flag:"multi-type" default:"split" oneof:"split,union" help:"several mapping types in one index: split into <index>_<type>, or union with ids <type>#<id>"`
	ParentJoin         string    `flag:"parent-join" check:"field" help:"put a join field of this name in the place of _parent (Elasticsearch up to 5); types with parents are united, ids become <type>#<id> (default: has_child finds nothing)"`
	RebuildSources     bool      `flag:"rebuild-sources" help:"rebuild sources that the mapping switches off or filters from stored fields and doc values; such documents count as reduced (default: they fail, or arrive as stored)"`
	RebuildText        bool      `flag:"rebuild-text-from-terms" help:"add text that is neither stored nor a keyword, put together out of its terms, to rebuilt sources (--rebuild-sources); it is approximate (default: such text is lost)"`
	DuplicateKeys      string    `flag:"duplicate-keys" default:"send" oneof:"send,keep-last" help:"send documents with a key more than once in an object as they are (OpenSearch refuses them), or with keep-last the last value, as Elasticsearch before 6 read it"`
}

// Splitting controls how the work on large shards is divided.
type Splitting struct {
	_    struct{} `group:"Processing" section:"work"`
	Over Size     `flag:"split-shards-over" default:"0" max:"1024GiB" want:"0, or a size such as 10GiB, from 64KiB to 1024GiB" help:"split shards with more bytes, as 10GiB, into parts of about that size for several slots or nodes; decided when a session is created (0: shards stay whole)"`
}

// Check refuses parts that are too small to be worth a lease.
func (s *Splitting) Check() error {
	if s.Over != 0 && s.Over < 64<<10 { // the most is a bound of the setting
		return Usage("invalid --split-shards-over %d: want 0, or a size such as 10GiB, from 64KiB to 1024GiB", s.Over)
	}
	return nil
}

// Slots is the number of shards that one process reads concurrently. A node has workers instead.
type Slots struct {
	_      struct{} `group:"Processing"`
	Number int      `flag:"slots" default:"0" min:"0" max:"64" help:"shards read at the same time (0: one per processor, at most 8)"`
}

// Check chooses the number of slots where none is given.
func (s *Slots) Check() error {
	if s.Number == 0 {
		s.Number = min(runtime.GOMAXPROCS(0), 8)
	}
	return nil
}

// RequestSize bounds the body of a bulk request.
type RequestSize struct {
	_     struct{} `group:"Processing" section:"work"`
	Bytes Size     `flag:"documents-size-per-bulk-request" default:"5MiB" min:"1KiB" max:"1GiB" help:"maximum bytes in one request, such as 5MiB; halved while the target reports overload; a larger document goes alone"`
}

// Document bounds one document.
type Document struct {
	_    struct{} `group:"Processing" section:"work"`
	Most Size     `flag:"max-document-size" default:"100MiB" max:"512MiB" want:"a size such as 100MiB or 256MB, from 1MiB to 512MiB" help:"read documents up to this size, as 100MiB; a longer one is recorded as too_large, and one takes up to four times that memory (default: what a cluster accepts unless configured)"`
}

// Check refuses a bound below which requests are.
func (d *Document) Check() error {
	if d.Most < 1<<20 {
		return Usage("invalid --max-document-size %d: want a size such as 100MiB or 256MB, from 1MiB to 512MiB", d.Most)
	}
	return nil
}

// Bulk bounds bulk requests.
type Bulk struct {
	_           struct{} `group:"Processing" section:"work"`
	Documents   int      `flag:"documents-per-bulk-request" default:"0" min:"0" max:"2147483647" help:"maximum number of documents in one request (0: no limit)"`
	Size        RequestSize
	Connections int           `flag:"max-connections" default:"8" min:"1" max:"256" help:"maximum number of concurrent requests, over all slots; starts with at most 4, and follows the measured throughput"`
	MaxRate     Rate          `flag:"max-rate" default:"0" want:"bytes per second with a unit, such as 20MiB or 20MB (0: no limit)" help:"maximum bytes of bulk bodies per second to send or export, such as 20MiB, for all slots, and in a fleet for all nodes together (0: no limit)"`
	MaxLatency  time.Duration `flag:"target-max-latency" default:"0s" max:"1h" help:"lower the load on the target while a request (of documents, or for a page of a comparison) takes longer to be answered, as 500ms or 2s, and raise it again (0s: never)"`
	Discover    bool          `flag:"target-discover" group:"Target" section:"target" help:"send documents, and credentials, also to the nodes that the target names, over TLS and only to those whose certificate is signed by the authority of --target-cacert"`
}

// IndexPriority selects the indices to migrate first.
type IndexPriority struct {
	_          struct{}   `group:"Processing" section:"work"`
	First      Patterns   `flag:"first" help:"index whose shards are processed first: a name, a pattern such as logs-*, or regex:PATTERN; may be repeated, in order"`
	Priorities Priorities `flag:"index-priority" help:"PATTERN=N such as users=5 or logs-*=-1: a higher N is processed earlier (default 0); may be repeated"`
}

// FailedPlace is the place where failed documents are kept.
type FailedPlace struct {
	_   struct{} `group:"Processing" section:"work"`
	Dir string   `flag:"failed-documents" check:"place" help:"directory, or an address s3://…, gs://… or azblob://… in a bucket, for failed documents (default: ./rfsd-failed/<session>; with --discard they are only counted)"`
}

// RefusalLimit is the number of documents that may be rejected.
type RefusalLimit struct {
	_   struct{} `group:"Processing" section:"work"`
	Max Limit    `flag:"max-failed-documents" default:"1000" want:"a number, or unlimited" help:"pause an index once more documents than this were rejected, if they are also more than 10 % of the documents sent to it; or unlimited"`
}

// Failed selects the handling of documents that do not arrive.
type Failed struct {
	_       struct{} `group:"Processing" section:"work"`
	Place   FailedPlace
	Content string `flag:"failed-documents-content" default:"full" oneof:"full,hash,none" help:"record of a failed document: full: its source and the message of the target; hash: SHA-256 and length of the source; none: only the class of the failure"`
	Shared  bool   `flag:"failed-documents-shared" help:"all processes see the same directory of --failed-documents, so that the control index need not list rejected documents"`
	Limit   RefusalLimit
}

// Patience is the time to wait for a target that does not answer.
type Patience struct {
	_           struct{}      `group:"Processing" section:"work"`
	Unavailable time.Duration `flag:"unavailable-timeout" default:"2m" help:"give up if the target has not answered for this long"`
}

// Output is the form of what a command prints.
type Output struct {
	_      struct{} `group:"Output"`
	Format string   `flag:"output" default:"text" oneof:"text,json,table" help:"text or json (table means text)"`
}

// JSON is the value of --output for programs. Call.Out is set by it.
const JSON = "json"

// Log selects the messages to log and their format.
type Log struct {
	_       struct{}   `group:"Output" section:"work"`
	Level   slog.Level `flag:"log-level" default:"info" oneof:"debug,info,warn,error" help:"debug, info, warn or error"`
	Format  string     `flag:"log-format" default:"auto" oneof:"auto,text,json" help:"text, json, or auto: text on a terminal, else JSON"`
	Quiet   bool       `flag:"quiet" help:"log only warnings and errors, and show no progress"`
	Verbose bool       `flag:"verbose" alias:"v" help:"log each step, as --log-level debug does"`
}

// Check rejects contradictions.
func (l *Log) Check() error {
	if l.Quiet && l.Verbose {
		return Usage("--quiet and --verbose exclude each other")
	}
	return nil
}

// MinLevel returns the level below which nothing is logged.
func (l Log) MinLevel() slog.Level {
	switch {
	case l.Verbose:
		return slog.LevelDebug
	case l.Quiet:
		return max(l.Level, slog.LevelWarn)
	}
	return l.Level
}

// State is the place of the state of the work: the target unless another place is named.
type State struct {
	_           struct{} `group:"Coordination" section:"coordination"`
	Coordinator Cluster  `prefix:"coordinator-" help:"URL of an OpenSearch that keeps the state of the work; may be repeated, for several addresses of it (default: the target)"`
	File        string   `flag:"coordinator-file" help:"file that keeps the state of the work, for one process (of an export to a directory: DIR/.rfsd/coordinator.db)"`
	Bucket      StateBucket
	Session     Session
}

// Check refuses two places.
func (s *State) Check() error {
	var given []string
	for _, place := range [][2]string{{"--coordinator-host", string(s.Coordinator.Host)}, {"--coordinator-file", s.File}, {"--coordinator-bucket", s.Bucket.URI}} {
		if place[1] != "" {
			given = append(given, place[0])
		}
	}
	if len(given) > 1 {
		return Usage("%s exclude each other", strings.Join(given, " and "))
	}
	return nil
}

// Session is the name of a migration.
type Session struct {
	_    struct{} `group:"Coordination" section:"coordination"`
	Name string   `flag:"session-name" check:"name" empty:"default" help:"name of this migration ([a-z0-9-], at most 64); a new name starts a new migration. Without it, the name is \"default\""`
}

// DefaultSession is the name of the session without a name, in messages, and in names of files, snapshots and rounds. As an option it means that no
// name is given.
const DefaultSession = "default"

// OrDefault returns the name under which files of the session are kept.
func (s Session) OrDefault() string { return cmp.Or(s.Name, DefaultSession) }

// Skew is the maximum difference between clocks.
type Skew struct {
	_         struct{}      `group:"Coordination" section:"coordination"`
	Tolerance time.Duration `flag:"clock-skew-tolerance" default:"15s" help:"refuse leases when this machine's clock is further off the coordinator's; 0s: off"`
}

// Leases are the rules of work items.
type Leases struct {
	_        struct{}      `group:"Coordination" section:"coordination"`
	Initial  time.Duration `flag:"initial-lease-duration" default:"10m" min:"1s" max:"6h" help:"first lease of a work item, as 10m; doubles with each attempt, up to --max-lease-duration"`
	Longest  time.Duration `flag:"max-lease-duration" default:"6h" min:"1s" max:"24h" help:"longest lease of a work item; the items of a dead worker wait as long"`
	Attempts int           `flag:"max-item-attempts" default:"5" min:"1" max:"1000" help:"attempts in a row without progress after which a work item is worked on alone, and may be given up; and after which a phase or an index is FAILED"`
	Skew     Skew
}

// Check refuses a first lease that is longer than the longest.
func (l *Leases) Check() error {
	if l.Initial > l.Longest {
		return Usage("--initial-lease-duration %s is longer than --max-lease-duration %s", l.Initial, l.Longest)
	}
	return nil
}

// Link connects a worker process with the daemon that started it.
type Link struct {
	_           struct{} `group:"Processing"`
	StatusFD    int      `flag:"status-fd" default:"0" min:"0" max:"65535" help:"inherited file descriptor that gets JSON records; the last one when the process ends"`
	ParentFD    int      `flag:"parent-fd" default:"0" min:"0" max:"65535" help:"inherited file descriptor that gives options and changes as JSON lines; at its end the worker hands off"`
	MetricsFile string   `flag:"metrics-file" help:"file that gets the worker's metrics in Prometheus' text format, now and then and at its end"`
}
