package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/export"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/metadata"
	"github.com/rfsd/rfsd/rfs/pattern"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/rules"
	"github.com/rfsd/rfsd/rfs/secret"
	"github.com/rfsd/rfsd/rfs/target"
	"github.com/rfsd/rfsd/rfs/worker"
)

// options are the flags of one run, checked.
type options struct {
	repoURI      string
	snapshot     string
	s3           repo.S3Options
	remotes      []string // remote stores that shallow snapshots refer to: URI or NAME=URI
	allowPartial bool
	verifyFirst  bool

	origin      origin // the source cluster
	target      target.Config
	exportDir   string
	compression string
	discard     bool
	allowSource bool // the target may be the source
	// acceptReduced: documents whose sources lack parts do not change the exit code.
	acceptReduced bool

	indices       pattern.Selection
	includeSystem bool
	phases        worker.Phases
	globals       metadata.Selection // what of the cluster's state is migrated
	rules         *rules.Set         // nil: none
	overrides     metadata.Overrides // wishes about every created index
	multiType     worker.MultiType
	emitType      worker.EmitType
	dataStreams   worker.DataStreams

	session         string
	coordinatorFile string
	coordinator     target.Config // another cluster for the state of the work; no URL: the target
	ownerFile       string
	skew            time.Duration
	leastExponent   int           // of new items' leases; a hint of the fleet
	tries           int           // items of a search, likewise
	recordEvery     time.Duration // progress is recorded so often, likewise; 0: the default
	care            careOptions
	lease           time.Duration
	slots           int
	bulkDocs        int
	bulkBytes       int
	connections     int
	maxRate         int64 // bytes per second; 0: no limit
	order           cms.Hints
	failedDir       string // or s3://bucket/prefix
	failedShared    bool   // every process of the fleet sees the directory
	fleet           bool   // there may be others who take part
	maxFailed       int64
	unavailable     time.Duration
	json            bool
	logLevel        slog.Level
}

var sessionName = regexp.MustCompile(`^[a-z0-9-]{0,64}$`)

func usage(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, fault.ErrConfig)...)
}

// parseOptions reads and checks the flags of a command that migrates documents.
func parseOptions(c *cli.Context) (options, error) {
	o := options{
		repoURI:  c.String("repo-uri"),
		remotes:  c.StringSlice("remote-store-uri"),
		snapshot: c.String("snapshot-name"),
		s3: repo.S3Options{
			Region: c.String("s3-region"), Endpoint: c.String("s3-endpoint"), PathStyle: c.Bool("s3-path-style"),
			RoleARN: c.String("s3-role-arn"), RequesterPays: c.Bool("s3-requester-pays"),
		},
		allowPartial:    c.Bool("allow-partial"),
		verifyFirst:     c.Bool("verify-first"),
		exportDir:       c.String("export-dir"),
		compression:     c.String("export-compression"),
		discard:         c.Bool("discard"),
		allowSource:     c.Bool("allow-source-as-target"),
		acceptReduced:   c.Bool("accept-reduced-sources"),
		includeSystem:   c.Bool("include-system"),
		multiType:       worker.MultiType(c.String("multi-type")),
		dataStreams:     worker.DataStreams(c.String("data-streams")),
		emitType:        worker.EmitType(strings.ToUpper(c.String("emit-doc-type"))),
		session:         c.String("session-name"),
		coordinatorFile: c.String("coordinator-file"),
		slots:           c.Int("slots"),
		bulkDocs:        c.Int("documents-per-bulk-request"),
		bulkBytes:       c.Int("documents-size-per-bulk-request"),
		connections:     c.Int("max-connections"),
		failedDir:       c.String("failed-documents"),
		failedShared:    c.Bool("failed-documents-shared"),
		json:            c.String("output") == "json",
	}
	o.care = parseCare(c)
	steps := []func(*cli.Context) error{o.checkSource, o.checkOrigin, o.checkDestination, o.checkPhases, o.checkSelection, o.checkWork}
	for _, step := range steps {
		if err := step(c); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (o *options) checkSource(c *cli.Context) error {
	if o.repoURI == "" {
		return usage("--repo-uri is missing: where is the snapshot repository?")
	}
	for _, uri := range append([]string{o.repoURI, o.s3.Endpoint}, o.remotes...) {
		if secret.In("repo-uri", uri) {
			return usage("%s: no user, password or key belongs in the address of a repository or endpoint: use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role", secret.Text(uri))
		}
	}
	if o.snapshot == "" && c.String("source-host") == "" {
		return usage("--snapshot-name is missing; `rfsctl snapshot list --repo-uri %s` lists them; with --source-host a snapshot is created", o.repoURI)
	}
	return nil
}

func (o *options) checkDestination(c *cli.Context) error {
	host := c.String("target-host")
	given := 0
	for _, is := range []bool{host != "", o.exportDir != "", o.discard} {
		if is {
			given++
		}
	}
	if given != 1 {
		return usage("exactly one of --target-host, --export-dir and --discard says where the documents go")
	}
	if err := export.Compression(o.compression).Check(); err != nil {
		return usage("--export-compression: %w", err)
	}
	if err := o.checkCoordinator(c); err != nil || host == "" {
		return err
	}
	var err error
	if o.target, err = o.cluster(c, "target"); err != nil {
		return err
	}
	o.target.RunPipelines = c.Bool("run-pipelines")
	// Compressing for one's own machine costs the processor and saves nothing.
	o.target.CompressRequests = !c.Bool("disable-compression") && !isLoopback(host)
	return err
}

// checkCoordinator reads the flags of a coordinator other than the target. A rehearsal may have one, so that a fleet can rehearse.
func (o *options) checkCoordinator(c *cli.Context) error {
	if c.String("coordinator-host") == "" {
		return nil
	}
	if o.coordinatorFile != "" {
		return usage("--coordinator-host and --coordinator-file exclude each other")
	}
	if o.exportDir != "" {
		return usage("--coordinator-host has no meaning with --export-dir: one process writes an export and keeps the state of the work in that directory; leave it out")
	}
	var err error
	o.coordinator, err = o.cluster(c, "coordinator")
	return err
}

// clustered reports whether a cluster keeps the state of the work, so that any number of processes can share it.
func (o options) clustered() bool {
	return o.coordinatorFile == "" && (o.target.URL != "" || o.coordinator.URL != "")
}

// isLoopback says whether a URL names this machine.
func isLoopback(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// cluster reads the flags of one cluster: target or coordinator.
func (o *options) cluster(c *cli.Context, which string) (target.Config, error) {
	if host := c.String(which + "-host"); !strings.HasPrefix(host, "http://") && !strings.HasPrefix(host, "https://") {
		return target.Config{}, usage("invalid --%s-host %q: want a URL such as https://%s", which, host, cmp.Or(strings.TrimPrefix(host, "//"), "localhost:9200"))
	}
	password, err := o.password(c, which)
	if err != nil {
		return target.Config{}, err
	}
	sign, err := sigV4(c, which)
	return target.Config{
		Role: which, SigV4: sign,
		URL: c.String(which + "-host"), Username: c.String(which + "-username"), Password: password,
		Insecure: c.Bool(which + "-insecure"), CACert: c.String(which + "-cacert"),
		ClientCert: c.String(which + "-client-cert"), ClientKey: c.String(which + "-client-cert-key"),
		MaxConnections: o.connections, UserAgent: "rfsd/" + version,
	}, err
}

// password takes it from the file, the variable or the flag.
func (o *options) password(c *cli.Context, which string) (string, error) {
	flag := which + "-password"
	if name := c.String(flag + "-file"); name != "" {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", usage("--%s-file: %w", flag, err)
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
	return c.String(flag), nil
}

// checkPhases takes the phases that were asked for, or all that are possible.
func (o *options) checkPhases(c *cli.Context) error {
	var possible worker.Phases
	if o.origin.derived {
		possible = append(possible, worker.PhaseSnapshot)
	}
	if o.target.URL != "" {
		possible = append(possible, worker.PhaseMetadata, worker.PhaseIndices)
	}
	possible = append(possible, worker.PhaseDocuments)
	wanted, err := worker.ParsePhases(c.String("phases"))
	if err != nil {
		return err
	}
	if o.phases = wanted; len(wanted) == 0 {
		o.phases = possible
	}
	for _, name := range o.phases {
		if !possible.Has(name) {
			if name == worker.PhaseSnapshot {
				return usage("--phases: %s needs a source cluster (--source-host), and no --snapshot-name", name)
			}
			return usage("--phases: %s needs a target cluster (--target-host)", name)
		}
	}
	return nil
}

// selectedIndices reads which indices take part.
func selectedIndices(c *cli.Context) (pattern.Selection, error) {
	var s pattern.Selection
	for flag, list := range map[string]*pattern.List{"index-allowlist": &s.Include, "index-exclude": &s.Exclude} {
		var err error
		if *list, err = pattern.ParseList(c.StringSlice(flag)); err != nil {
			return s, usage("--%s: %w", flag, err)
		}
	}
	return s, nil
}

func (o *options) checkSelection(c *cli.Context) error {
	var err error
	if o.indices, err = selectedIndices(c); err != nil {
		return err
	}
	if err := o.checkGlobals(c); err != nil {
		return err
	}
	if name, text := c.String("rules"), c.String(rulesText); name != "" {
		o.rules, err = rules.Load(name)
	} else if text != "" {
		o.rules, err = rules.Parse("the fleet's rules", []byte(text))
	}
	if err != nil {
		return err
	}
	o.globals.Rules = o.rules
	if err := o.checkOverrides(c); err != nil {
		return err
	}
	if o.multiType != worker.SplitTypes && o.multiType != worker.UnionTypes {
		return usage("--multi-type %q is not split or union", o.multiType)
	}
	if o.dataStreams != worker.StreamsToIndices && o.dataStreams != worker.StreamsCreate {
		return usage("--data-streams %q is not index or create", o.dataStreams)
	}
	switch o.emitType {
	case worker.EmitAuto, worker.EmitOn, worker.EmitOff:
	default:
		return usage("--emit-doc-type %q is not AUTO, ON or OFF", o.emitType)
	}
	return nil
}

func (o *options) checkWork(c *cli.Context) error {
	if err := o.checkLeases(c); err != nil {
		return err
	}
	if err := o.checkBounds(c); err != nil {
		return err
	}
	return o.defaultPaths()
}

// checkLeases reads the rules of leases.
func (o *options) checkLeases(c *cli.Context) error {
	var err error
	if o.lease, err = parseDuration(c.String("initial-lease-duration")); err != nil {
		return usage("--initial-lease-duration: %w", err)
	}
	if o.lease < time.Second || o.lease > 6*time.Hour {
		return usage("--initial-lease-duration %v is not between 1s and 6h", o.lease)
	}
	if o.skew, err = parseDuration(c.String("clock-skew-tolerance")); err != nil {
		return usage("--clock-skew-tolerance: %w", err)
	}
	return nil
}

// checkBounds reads what bounds the run, and how it is reported.
func (o *options) checkBounds(c *cli.Context) error {
	if !sessionName.MatchString(o.session) {
		return usage("--session-name %q: only a–z, 0–9 and -, at most 64", o.session)
	}
	var err error
	if o.unavailable, err = parseDuration(c.String("unavailable-timeout")); err != nil {
		return usage("--unavailable-timeout: %w", err)
	}
	if o.slots == 0 {
		o.slots = min(runtime.GOMAXPROCS(0), 8)
	}
	for _, b := range []struct {
		name      string
		v, lo, hi int
	}{
		{"slots", o.slots, 1, 64},
		{"documents-per-bulk-request", o.bulkDocs, 0, math.MaxInt32},
		{"documents-size-per-bulk-request", o.bulkBytes, 1 << 10, 1 << 30},
		{"max-connections", o.connections, 1, 256},
	} {
		if b.v < b.lo || b.v > b.hi {
			return usage("--%s %d is not between %d and %d", b.name, b.v, b.lo, b.hi)
		}
	}
	rate, err := strconv.ParseFloat(c.String("max-rate"), 64)
	if err != nil || math.IsNaN(rate) || rate < 0 || rate > 1e6 {
		return usage("--max-rate %q is no number of megabytes per second between 0 and 1000000", c.String("max-rate"))
	}
	o.maxRate = int64(rate * 1e6)
	if o.order, err = worker.NewOrder(c.StringSlice("first"), c.StringSlice("index-priority")); err != nil {
		return err
	}
	o.maxFailed = math.MaxInt64
	if s := c.String("max-failed-documents"); s != "unlimited" {
		if o.maxFailed, err = strconv.ParseInt(s, 10, 64); err != nil || o.maxFailed < 0 {
			return usage("--max-failed-documents %q is neither a number nor unlimited", s)
		}
	}
	switch c.String("output") {
	case "text", "json":
	default:
		return usage("--output %q is not text or json", c.String("output"))
	}
	if err := o.logLevel.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return usage("--log-level: %w", err)
	}
	if o.failedDir == "" && !o.discard {
		o.failedDir = filepath.Join("rfsd-failed", o.sessionOrDefault())
	}
	return o.checkSink(o.repoURI)
}

func (o *options) sessionOrDefault() string {
	if o.session == "" {
		return "default"
	}
	return o.session
}

// defaultPaths derives where the state of the work is kept.
func (o *options) defaultPaths() error {
	if o.coordinatorFile != "" || o.discard && !o.clustered() {
		return nil
	}
	if o.exportDir != "" {
		o.coordinatorFile = filepath.Join(o.exportDir, ".rfsd", "coordinator.db")
		return nil
	}
	dir, err := stateDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return usage("state directory: %w", err)
	}
	sum := sha256.Sum256([]byte(o.repoURI + "\x00" + o.snapshot + "\x00" + o.target.URL + "\x00" + o.coordinator.URL))
	o.ownerFile = filepath.Join(dir, fmt.Sprintf("%s-%s.owner", o.sessionOrDefault(), hex.EncodeToString(sum[:8])))
	return nil
}

// stateDir is the user's directory for state that survives the run.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "rfsd"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", usage("no home directory for the state of the work: give --coordinator-file")
	}
	return filepath.Join(home, ".local", "state", "rfsd"), nil
}
