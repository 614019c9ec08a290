package guide

import (
	"slices"
	"strings"
)

// guide holds the most frequent options of a command with many options, and examples, for its short help.
type guide struct {
	options  []string // in the order of the work
	examples []Example
}

// Example is a use of a command.
type Example struct {
	Task string
	Line string // the command line
}

// Examples returns the examples of a command, which is named as it is typed.
func Examples(called string) []Example { return guides[called].examples }

// The options that the short help of several commands shows, in the order of the work.
var (
	sourceOptions = []string{"repo-uri", "snapshot-name", "source-host", "index-allowlist", "index-exclude"}
	targetOptions = []string{"target-host", "target-username", "target-password-file"}
	stateOptions  = append(slices.Clip(targetOptions), "session-name")
)

// guides are the guides by command. A command without a guide shows all its options.
var guides = map[string]guide{
	"rfsd migrate": {
		options: slices.Concat(sourceOptions, targetOptions, strings.Fields("existing-documents session-name export-dir trial verify max-rate output")),
		examples: []Example{
			{"a snapshot in a bucket to a cluster", "rfsd migrate --repo-uri s3://backups/es --snapshot-name nightly --target-host https://target:9200"},
			{"a running cluster: its snapshot is made first", "rfsd migrate --repo-uri s3://backups/es --source-host https://source:9200 --target-host https://target:9200"},
			{"some indices to files", "rfsd migrate --repo-uri /backups/es --snapshot-name nightly --index-allowlist 'logs-*' --export-dir out"},
		},
	},
	"rfsd follow": {
		options: slices.Concat(sourceOptions, targetOptions, strings.Fields("session-name once every block-source-writes delete-indices stop-following start-over finish output")),
		examples: []Example{
			{"bring the changes every 15 minutes", "rfsd follow --repo-uri s3://backups/es --source-host https://source:9200 --target-host https://target:9200 --session-name live --every 15m"},
			{"bring the changes up to a snapshot that another tool made", "rfsd follow --once --repo-uri /backups/es --snapshot-name nightly-2 --target-host https://target:9200 --session-name live"},
		},
	},
	"rfsd run": {
		options: slices.Concat(strings.Fields("config node-name data-dir join workers"), sourceOptions[:3], strings.Fields("target-host session-name listen exit-when-done verify max-rate")),
		examples: []Example{
			{"one node of a fleet, from its configuration file", "rfsd run --config /etc/rfsd/rfsd.toml"},
			{"one machine, until everything has arrived", "rfsd run --data-dir data --one-machine --exit-when-done --repo-uri /backups/es --snapshot-name nightly --target-host https://target:9200"},
		},
	},
	"rfsd config check": {
		options:  slices.Concat(sourceOptions[:2], targetOptions, strings.Fields("session-name node-name workers join")),
		examples: []Example{{"a file, as the service reads it", "rfsd config check /etc/rfsd/rfsd.toml"}},
	},
	"rfsd config init": {
		options:  slices.Concat(sourceOptions[:3], targetOptions, strings.Fields("session-name node-name data-dir join workers listen")),
		examples: []Example{{"a file for a node of a fleet", "rfsd config init --repo-uri s3://backups/es --snapshot-name nightly --target-host https://target:9200 --join node-2:7946"}},
	},
	"rfsd worker": {options: slices.Concat(sourceOptions[:2], targetOptions, strings.Fields("session-name status-fd metrics-file")),
		examples: []Example{{"work on one lease", "rfsd worker --repo-uri /backups/es --snapshot-name nightly --target-host https://target:9200"}}},
	"rfsd plan": {
		options: slices.Concat(sourceOptions, targetOptions, strings.Fields("only documents target-version output")),
		examples: []Example{
			{"all checks before a migration", "rfsd plan --repo-uri s3://backups/es --snapshot-name nightly --target-host https://target:9200"},
			{"sizes only, without a target", "rfsd plan --repo-uri /backups/es --snapshot-name nightly --documents"},
		},
	},
	"rfsd verify": {
		options:  slices.Concat(sourceOptions, targetOptions, strings.Fields("session-name from quick sample strict differences output")),
		examples: []Example{{"compare a target with the snapshot that filled it", "rfsd verify --repo-uri s3://backups/es --snapshot-name nightly --target-host https://target:9200"}},
	},
	"rfsd import": {
		options:  slices.Concat(strings.Fields("from"), targetOptions, strings.Fields("existing-documents create-indices session-name failed-documents max-rate output")),
		examples: []Example{{"the files of an export", "rfsd import --from out --target-host https://target:9200 --create-indices"}},
	},
	"rfsd consume": {
		options:  slices.Concat(strings.Fields("brokers topic group format index-name until-end"), targetOptions, strings.Fields("session-name failed-documents output")),
		examples: []Example{{"the messages of a topic", "rfsd consume --brokers kafka-1:9092 --topic orders --group rfsd-orders --index-name orders --target-host https://target:9200"}},
	},
	"rfsd redrive": {
		options:  slices.Concat(stateOptions, strings.Fields("failed-documents index-allowlist repo-uri from output")),
		examples: []Example{{"after the cause of the rejections was fixed", "rfsd redrive --target-host https://target:9200 --session-name default"}},
	},
	"rfsctl status": {
		options: slices.Concat(stateOptions, strings.Fields("node watch shards exit-status output")),
		examples: []Example{
			{"a migration that runs on this machine", "rfsctl status"},
			{"from anywhere, by the state of the work", "rfsctl status --target-host https://target:9200 --session-name live"},
		},
	},
	"rfsctl cutover": {
		options: slices.Concat(stateOptions, strings.Fields("dry-run block-source-writes max-outage indices accept-failed abort no-wait output")),
		examples: []Example{
			{"how long writes would end", "rfsctl cutover --target-host https://target:9200 --session-name live --dry-run"},
			{"end writes on the source, bring the rest, and end the following", "rfsctl cutover --target-host https://target:9200 --session-name live --block-source-writes"},
		},
	},
	"rfsctl snapshot extract": {
		options: strings.Fields("repo-uri snapshot-name to index-rename rules with-users dashboards-host dashboards-username dashboards-password-file dry-run output"),
		examples: []Example{
			{"to files", "rfsctl snapshot extract --repo-uri s3://backups/es --snapshot-name nightly --to files"},
			{"the saved objects also into OpenSearch Dashboards", "rfsctl snapshot extract --repo-uri s3://backups/es --snapshot-name nightly --to files --dashboards-host https://dashboards:5601 --dashboards-username admin"},
		},
	},
	"rfsctl failures": {
		options:  slices.Concat(stateOptions, strings.Fields("node failed-documents index output")),
		examples: []Example{{"the failed documents of a directory, by cause", "rfsctl failures --failed-documents rfsd-failed/default"}},
	},
	"rfsctl items list":     {options: slices.Concat(stateOptions, strings.Fields("node index state output"))},
	"rfsctl items show":     {options: slices.Concat(stateOptions, strings.Fields("node output"))},
	"rfsctl items retry":    {options: slices.Concat(stateOptions, strings.Fields("output"))},
	"rfsctl items cancel":   {options: slices.Concat(stateOptions, strings.Fields("output"))},
	"rfsctl undo":           {options: slices.Concat(stateOptions, strings.Fields("yes output"))},
	"rfsctl cleanup":        {options: slices.Concat(stateOptions, strings.Fields("yes force trial output"))},
	"rfsctl created":        {options: slices.Concat(stateOptions, strings.Fields("output"))},
	"rfsctl report":         {options: slices.Concat(stateOptions, strings.Fields("output"))},
	"rfsctl sessions":       {options: slices.Concat(targetOptions, strings.Fields("output"))},
	"rfsctl target restore": {options: slices.Concat(stateOptions, strings.Fields("output"))},
}

// brief holds the placeholder of the value of an option and its help in one line, for the short help.
var brief = map[string][2]string{
	"abort":                    {"", "give up a cut-over that is in progress; writes are possible again"},
	"accept-failed":            {"", "cut over although documents failed"},
	"block-source-writes":      {"", "block writes to the source in a cut-over"},
	"brokers":                  {"HOST:PORT", "brokers of the Kafka cluster"},
	"config":                   {"FILE", "configuration file; `rfsd config init` writes one"},
	"create-indices":           {"", "create indices that the target lacks"},
	"dashboards-host":          {"URL", "OpenSearch Dashboards that imports the saved objects, too"},
	"dashboards-password-file": {"FILE", "file that holds the password (or set RFS_DASHBOARDS_PASSWORD)"},
	"dashboards-username":      {"NAME", "user of OpenSearch Dashboards"},
	"data-dir":                 {"DIR", "directory for the state of this node"},
	"delete-indices":           {"", "delete indices on the target that vanish from the source"},
	"differences":              {"N", "number of differences to list"},
	"documents":                {"", "count documents, too"},
	"dry-run":                  {"", "report what would happen, and do nothing"},
	"every":                    {"DURATION", "start a round this often (default: 15m)"},
	"existing-documents":       {"CHOICE", "ids that the target has: overwrite, keep or newer"},
	"exit-status":              {"", "end with an exit code that shows the state"},
	"exit-when-done":           {"", "end when everything has arrived"},
	"export-dir":               {"DIR", "write NDJSON files to a directory or bucket instead"},
	"failed-documents":         {"DIR", "where failed documents are kept (default: ./rfsd-failed/NAME)"},
	"finish":                   {"", "end the following, and restore settings of the target"},
	"force":                    {"", "also where the session is not complete"},
	"format":                   {"FORMAT", "format of the messages: json or bulk"},
	"from":                     {"DIR", "directory or bucket with NDJSON files, as an export writes them"},
	"group":                    {"NAME", "consumer group for committed offsets"},
	"index":                    {"NAME", "only this index"},
	"index-allowlist":          {"PATTERN", "index to migrate: a name or a pattern; repeat it for more (default: all)"},
	"index-exclude":            {"PATTERN", "index to leave out; repeat it for more"},
	"index-name":               {"NAME", "index of the target"},
	"index-rename":             {"PATTERN=NAME", "new names of indices, and of index patterns; repeat it for more"},
	"indices":                  {"PATTERN", "cut over only these indices"},
	"join":                     {"HOST:PORT", "another node of the fleet"},
	"listen":                   {"HOST:PORT", "address of the API and the status page"},
	"max-outage":               {"DURATION", "give up the cut-over when writes were blocked for this long (default: 10m)"},
	"max-rate":                 {"SIZE", "send at most this much per second, as 20MiB (0: no limit)"},
	"metrics-file":             {"FILE", "write Prometheus metrics there"},
	"no-wait":                  {"", "do not wait for the end"},
	"node":                     {"HOST:PORT", "ask this node"},
	"node-name":                {"NAME", "name of this node (default: the host's)"},
	"once":                     {"", "run one round, then exit"},
	"only":                     {"SECTIONS", "changes, sizes, access, versions, disks, limits (default: all)"},
	"output":                   {"FORM", "text or json"},
	"quick":                    {"", "compare counts and digests only"},
	"repo-uri":                 {"URI", "snapshot repository: a path, or s3://…, gs://…, azblob://…"},
	"rules":                    {"FILE", "file with rules for names"},
	"sample":                   {"N", "compare a sample of the documents"},
	"session-name":             {"NAME", "name of this migration; a new name starts a new one"},
	"shards":                   {"", "list the shards of each index"},
	"snapshot-name":            {"NAME", "snapshot to read (default: make one on --source-host)"},
	"source-host":              {"URL", "source cluster, to make a snapshot on"},
	"start-over":               {"", "send all again if a snapshot that is needed is gone"},
	"state":                    {"STATE", "only items in this state"},
	"status-fd":                {"N", "file descriptor that gets JSON records"},
	"stop-following":           {"PATTERN", "index that is not followed any more"},
	"strict":                   {"", "count later writes to the target as differences"},
	"target-host":              {"URL", "target cluster"},
	"target-password-file":     {"FILE", "file that holds the password (or set RFS_TARGET_PASSWORD)"},
	"target-username":          {"NAME", "user of the target"},
	"target-version":           {"VERSION", "plan for an empty target of this version"},
	"to":                       {"DIR", "new or empty directory for the files"},
	"topic":                    {"NAME", "topic to consume"},
	"trial":                    {"N", "try it out with at most N documents of each shard"},
	"until-end":                {"", "end when the messages that exist at the start have arrived"},
	"verify":                   {"", "compare the target with the snapshot at the end"},
	"watch":                    {"", "repeat until it is complete"},
	"with-users":               {"", "also write users, with the hashes of their passwords"},
	"workers":                  {"N", "number of workers of this node"},
	"yes":                      {"", "do it; without it, list only"},

	"rfsctl --session-name":       {"NAME", "name of the migration"},
	"rfsctl cleanup --trial":      {"", "list a trial run: what it created, and its state"},
	"rfsctl cleanup --yes":        {"", "remove what --trial lists"},
	"rfsd redrive --session-name": {"NAME", "name of the migration"},
	"rfsd plan --session-name":    {"NAME", "name that the migration will have"},
	"rfsd verify --session-name":  {"NAME", "name of the migration"},
}

// groupOrder is the order of the headings of the full help: the order of the work.
var groupOrder = []string{
	"Source", "Source cluster", "Files", "Stream", "Selection and conversion", "Selection", "Target", "Export instead of a target", "OpenSearch Dashboards", "Rounds", "Cut-over", "Trial run", "Checks",
	"Verification", "Confirmation", "Processing", "Protection of the target", "Windows", "Coordination", "Connection to a node", "Output", "Page", "Certificate", "Node",
	"API", "Fleet: gossip between nodes", "Fleet: number of machines", "Events",
}
