package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/progress"
	"github.com/rfsd/rfsd/rfs/schedule"
	"github.com/rfsd/rfsd/rfs/terminal"
)

const runHelp = `Keeps workers running on this machine until no work is left, and goes on telling how far the migration is. Each worker
   is a process that leases one work item (rfsd worker); with a coordinator file, which one process can open, they run inside.
   With --from the task is an import of files instead of a migration (rfsd import).

   Settings come from the file (--config; strict TOML, see rfsd config check), the environment (RFS_*) and flags, the latter over the former.
   SIGTERM hands every lease off within 30 s, a second one ends the workers at once; SIGHUP reads certificates and log level again.

   Exit codes: 0 stopped by a signal, or with --exit-when-done every document arrived; with --exit-when-done as of migrate: 6 complete, but
   documents were refused, have no source or only a part of it (--accept-reduced-sources); 7 complete, but shards, indices or phases failed, or shards are damaged or missing (of an import:
   windows were given up); 1 usage, configuration, or a coordination store that refuses this node. 7 wins over 6.`

// runFlags are the flags of a node: those of its workers, and its own.
func runFlags() []cli.Flag {
	return slices.Concat(workerFlags(), importOwnFlags(), nodeFlags(), apiFlags(), fleetFlags())
}

// workerFlags are the settings that workers get.
func workerFlags() []cli.Flag {
	var flags []cli.Flag
	for _, group := range [][]cli.Flag{sourceFlags(), destinationFlags(), selectionFlags(), workFlags(), coordinationFlags()} {
		flags = append(flags, group...)
	}
	return flags
}

func nodeFlags() []cli.Flag {
	return []cli.Flag{
		str(node, "node-name", "", "name of this node (default: the host's)"),
		str(node, "workers", "auto", "workers of this node: a number, or auto (processors, memory, and how busy the target is)"),
		num(node, "max-workers", 64, "most workers of this node, whatever is wanted of the fleet"),
		str(node, "worker-memory", "1GiB", "memory of each worker process, as 1GiB or 512MB; one that grows beyond 1.5 times of it is ended (0: no limit)"),
		yes(node, "exit-when-done", "end when no work is left"),
		str(events, "webhook", "", "URL to which each event is posted as JSON"),
		str(events, "webhook-file", "", "file holding the URL, when it is a secret"),
		list(events, "command", "program that is run for each event, with the event as JSON on its standard input; further entries are its arguments"),
	}
}

func runCommand() *cli.Command {
	flags := append(runFlags(), str(node, "config", "", "configuration file"))
	return &cli.Command{
		Name: "run", Usage: "run this machine's part of a migration: the daemon", Description: runHelp, Flags: flags,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("unexpected argument %q: every option begins with --", c.Args().First())
			}
			if err := readSettings(c, flags, c.String("config")); err != nil {
				return err
			}
			if err := joinFleet(c.Context, c, flags); err != nil {
				return err
			}
			o, err := parseRun(c)
			if err != nil {
				return err
			}
			return runNode(c.Context, o)
		},
	}
}

// runOptions are the options of a node, checked.
type runOptions struct {
	options
	name        string
	workers     int // 0: automatic
	most        int
	memory      int64
	endWhenDone bool
	webhook     string
	command     []string
	imports     *importOptions      // an import is the task; nil: a migration
	settings    map[string][]string // for workers
	shared      cms.Shared          // for other nodes
	shareOver   bool                // whatever they had before
	trust       trust
	api         apiOptions
	fleet       fleetOptions
	config      string
}

// parseRun reads and checks the flags of a node.
func parseRun(c *cli.Context) (runOptions, error) {
	r := runOptions{
		name: c.String("node-name"), most: c.Int("max-workers"), endWhenDone: c.Bool("exit-when-done"),
		webhook: c.String("webhook"), command: c.StringSlice("command"), config: c.String("config"),
	}
	err := r.parseTask(c)
	if err != nil {
		return r, err
	}
	if r.api, err = parseAPI(c); err != nil {
		return r, err
	}
	if r.name == "" {
		if r.name, err = os.Hostname(); err != nil || r.name == "" {
			return r, usage("this machine has no name: give --node-name")
		}
	}
	if s := c.String("workers"); s != "auto" {
		if r.workers, err = strconv.Atoi(s); err != nil || r.workers < 1 || r.workers > 256 {
			return r, usage("--workers %q is neither auto nor a number between 1 and 256", s)
		}
	}
	if r.most < 1 || r.most > 256 {
		return r, usage("--max-workers %d is not between 1 and 256", r.most)
	}
	if r.memory, err = parseSize(c.String("worker-memory")); err != nil {
		return r, usage("--worker-memory: %w", err)
	}
	if r.memory != 0 && r.memory < 64<<20 {
		return r, usage("--worker-memory %s: a worker needs at least 64MiB", c.String("worker-memory"))
	}
	if name := c.String("webhook-file"); name != "" {
		b, err := os.ReadFile(name)
		if err != nil {
			return r, usage("--webhook-file: %w", err)
		}
		r.webhook = strings.TrimSpace(string(b))
	}
	if r.webhook != "" && !strings.HasPrefix(r.webhook, "https://") && !strings.HasPrefix(r.webhook, "http://") {
		return r, usage("the webhook is no URL of http or https")
	}
	if r.api, err = parseAPI(c); err != nil {
		return r, err
	}
	if r.fleet, err = parseFleet(c, r.name); err != nil {
		return r, err
	}
	if err := outside(r.failedDir, r.fleet.dataDir); err != nil {
		return r, err
	}
	if r.fleet.gossip.Bind != "" && r.inside() {
		return r, usage("--gossip-listen: a coordinator file belongs to one node; a fleet keeps its work in a cluster")
	}
	r.settings = effective(c, r.taskFlags())
	if r.shared, err = sharedSettings(c, r.taskFlags(), slog.New(slog.DiscardHandler)); err != nil {
		return r, err
	}
	r.shareOver = c.Bool("share-settings")
	if r.trust, err = newTrust(c); err != nil {
		return r, err
	}
	delete(r.settings, "max-rate") // the node's; each worker is told its share
	delete(r.settings, "slots")
	return r, nil
}

// parseTask reads what the workers are to do.
func (r *runOptions) parseTask(c *cli.Context) error {
	var err error
	if c.String("from") == "" {
		r.options, err = parseOptions(c)
		return err
	}
	known := importFlags()
	for _, f := range workerFlags() {
		name := f.Names()[0]
		if c.IsSet(name) && len(only(slices.Clone(known), name)) == 0 && !slices.Contains(leaseRules, name) {
			return usage("--%s has no meaning for an import (--from): a node imports files or migrates a snapshot, and so do all nodes of its session", name)
		}
	}
	o, err := parseImport(c)
	r.imports, r.options = &o, o.options
	return err
}

// leaseRules may be set for all sessions of a machine; windows have a lease of their own.
var leaseRules = []string{"initial-lease-duration", "clock-skew-tolerance"}

// taskFlags are the settings that the workers get.
func (r *runOptions) taskFlags() []cli.Flag {
	if r.imports != nil {
		return importFlags()
	}
	return workerFlags()
}

// parseSize reads bytes: 512MB (10^6), 1GiB (2^30), or a plain number.
func parseSize(s string) (int64, error) {
	units := []struct {
		name string
		size int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}
	s = strings.TrimSpace(s)
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > (1<<50)/u.size {
			return 0, fmt.Errorf("%q is no size such as 512MB or 1GiB", s)
		}
		return n * u.size, nil
	}
	return 0, fmt.Errorf("%q is no size such as 512MB or 1GiB", s)
}

// inside reports whether workers run in this process, because only it can open their store.
func (r runOptions) inside() bool { return !r.clustered() }

// runNode runs the daemon.
func runNode(ctx context.Context, r runOptions) error {
	notify, err := daemon.NewNotifier(os.Getenv)
	if err != nil {
		return err
	}
	var level slog.LevelVar
	level.Set(r.logLevel)
	ring := daemon.NewLogRing(2000)
	log := slog.New(slog.NewJSONHandler(io.MultiWriter(terminal.NewWriter(os.Stderr), ring), logOptions(&level))).With("node", r.name)
	id, err := r.api.identity()
	if err != nil {
		return err
	}
	r.warnOfRisks(log)
	conf := daemon.Config{
		Name: r.name, Version: version, Session: r.session, Workers: r.workers, MaxWorkers: r.most, Memory: r.memory, MaxRate: r.maxRate,
		EndWhenDone: r.endWhenDone, Sinks: sinks(r), Logs: ring, Log: log, Notify: notify,
		Reload: func() (string, error) { return reload(r, id, &level) },
	}
	if r.imports != nil {
		conf.Task = daemon.Import()
	}
	closeStore := func() error { return nil }
	if r.inside() {
		host := newSlotHost(r.options, log)
		host.imports = r.imports
		conf.Open, conf.Starter, closeStore = host.open, host.starter(), host.close
	} else {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("the program's own file: %w", err)
		}
		conf.Open = func(ctx context.Context) (*cms.Coordinator, error) {
			coordinator, err := openCoordinator(ctx, r.options)
			if err == nil {
				r.share(ctx, coordinator, log)
			}
			return coordinator, err
		}
		conf.Starter = &daemon.Processes{
			Program: program, Args: []string{r.workerCommand()}, Options: r.settings, Memory: r.memory,
			Line: func(_, _ int, line []byte) {
				ring.Add(line)
				fmt.Fprintf(terminal.NewWriter(os.Stderr), "%s\n", line)
			},
		}
	}
	err = runParts(ctx, r, conf, id, log)
	if cerr := closeStore(); err == nil {
		err = cerr
	}
	return err
}

// workerCommand is the command whose processes do the work.
func (r runOptions) workerCommand() string {
	if r.imports != nil {
		return "import"
	}
	return "worker"
}

// runParts runs the daemon and its part of the fleet.
func runParts(ctx context.Context, r runOptions, conf daemon.Config, id *cert.Identity, log *slog.Logger) error {
	var streams *api.Streams
	if id != nil && r.fleet.gossip.Bind != "" {
		streams = api.NewStreams(id, r.api.advertise)
	}
	conf.Serve = func(d *daemon.Daemon) (func() error, error) { return r.api.open(d, id, streams, log) }
	if r.fleet.gossip.Bind == "" {
		d := daemon.New(conf)
		defer hearSignals(d)()
		return ending(d.Run(ctx), r, d)
	}
	var d *daemon.Daemon
	conf.Scheduler = &schedule.Scheduler{}
	self := &member{r: r, streams: streams, sched: conf.Scheduler, log: log, daemon: func() *daemon.Daemon { return d }}
	conf.Fleet, conf.Peers, conf.Position = self, self, conf.Scheduler.Position
	inner := conf.Reload
	conf.Reload = func() (string, error) {
		if err := self.rotate(); err != nil {
			return "", err
		}
		return inner()
	}
	d = daemon.New(conf)
	defer hearSignals(d)()
	beside, end := context.WithCancel(context.WithoutCancel(ctx)) // until the workers are gone
	defer end()
	var joined sync.WaitGroup
	joined.Go(func() {
		if err := self.run(beside); err != nil {
			log.Info("the fleet was left without a word", "error", fault.Text(err))
		}
	})
	err := d.Run(ctx)
	end()
	joined.Wait()
	return ending(err, r, d)
}

// ending returns the error of a node that has ended: the exit code of a migration with losses, when it was to run to its end.
func ending(err error, r runOptions, d *daemon.Daemon) error {
	if err != nil || !r.endWhenDone {
		return err
	}
	m := d.Status(context.Background()).Migration
	if code := endCode(m, r.acceptReduced); code != exitOK {
		return &codedError{code, fmt.Errorf("complete, but not everything arrived: %d documents refused or without source, %d with a reduced source, %d work items failed; `rfsctl failures` and the events name them", m.Totals.Failed, m.Totals.Reduced, m.Totals.ItemsBad)}
	}
	return nil
}

// endCode returns the exit code of a migration as it ended; one that is not complete was stopped by its operator.
func endCode(m *progress.Migration, acceptReduced bool) int {
	switch {
	case m == nil || !m.Complete:
		return exitOK
	case m.Totals.ItemsBad > 0 || len(m.Failures) > 0:
		return exitDamaged
	case m.Totals.Failed > 0, m.Totals.Reduced > 0 && !acceptReduced:
		return exitRefused
	}
	return exitOK
}

// openCoordinator connects to the store that the workers use.
func openCoordinator(ctx context.Context, o options) (*cms.Coordinator, error) {
	store, _, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	return cms.New(cms.Config{Store: store, Creator: newHolder(), InitialLease: o.lease, SkewTolerance: o.skewTolerance()})
}

func sinks(r runOptions) []daemon.Sink {
	var all []daemon.Sink
	if r.webhook != "" {
		all = append(all, daemon.NewWebhook(r.webhook))
	}
	if len(r.command) > 0 {
		all = append(all, daemon.NewCommand(r.command))
	}
	return all
}

// hearSignals passes SIGHUP on, and the second of the signals that end the daemon: the first ends its context.
func hearSignals(d *daemon.Daemon) (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, os.Interrupt)
	quit := make(chan struct{})
	go func() {
		ends := 0
		for {
			select {
			case <-quit:
				return
			case s := <-signals:
				if s == syscall.SIGHUP {
					d.Reload()
					continue
				}
				if ends++; ends > 1 {
					d.KillWorkers()
				}
			}
		}
	}()
	return func() { signal.Stop(signals); close(quit) }
}

// reload reads certificates and log level again.
func reload(r runOptions, id *cert.Identity, level *slog.LevelVar) (string, error) {
	if id != nil {
		if err := id.Reload(); err != nil {
			return "", err
		}
	}
	return reloadLevel(r, level)
}

// reloadLevel reads the log level of the file again.
func reloadLevel(r runOptions, level *slog.LevelVar) (string, error) {
	if r.config == "" {
		return level.Level().String(), nil
	}
	values, err := loadSettings(r.config)
	if err != nil {
		return "", err
	}
	given := values["log-level"]
	if len(given) == 0 || os.Getenv(env("log-level")[0]) != "" {
		return level.Level().String(), nil
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(given[0])); err != nil {
		return "", fmt.Errorf("log-level: %w: %w", err, fault.ErrConfig)
	}
	level.Set(l)
	return l.String(), nil
}
