package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/events"
	"github.com/rfsd/rfsd/daemon/fleet"
	"github.com/rfsd/rfsd/daemon/sharing"
	"github.com/rfsd/rfsd/daemon/sinks"
	"github.com/rfsd/rfsd/daemon/telemetry"
	"github.com/rfsd/rfsd/daemon/web"
	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func runCommand() *cli.Command {
	return config.Raw[config.Run](cli.Command{
		Name: "run", Usage: "run this machine's part of a migration: the daemon", Description: help.Run,
	}, func(ctx context.Context, call *config.Call) error {
		var file config.ConfigFile
		if err := config.Decode(call.Given(), &file); err != nil {
			return err
		}
		values, err := nodeSettings(call, file.Name)
		if err != nil {
			return err
		}
		if values, err = joinFleet(ctx, values, call.Settings); err != nil {
			return err
		}
		r, err := parseRun(values)
		if err != nil {
			return err
		}
		given := call.Given()
		r.config, r.levelGiven = file.Name, given["log-level"] != nil || given["quiet"] != nil || given["verbose"] != nil
		r.out = call.Out
		return runNode(ctx, r)
	})
}

// runOptions are the options of a node, derived from its settings.
type runOptions struct {
	wiring.Options
	own        config.Own
	gossip     gossip.Config
	task       *task               // nil: a migration
	follows    *config.FleetFollow // nil: this node does not follow a cluster
	settings   config.Values       // for workers
	shared     session.Shared      // for other nodes
	trust      sharing.Checker
	config     string // file; "": none
	sent       *telemetry.Telemetry
	out        *output.Writer
	levelGiven bool // the log level does not come from the file
}

// parseRun makes the options of a node of given settings.
func parseRun(values config.Values) (runOptions, error) {
	var r runOptions
	err := config.Decode(values, &r.own)
	if err != nil {
		return r, err
	}
	settings, err := r.parseTask(values)
	if err != nil {
		return r, err
	}
	var sent struct{ Transfer config.Transfer }
	if err := config.Decode(values, &sent); err != nil {
		return r, err
	}
	if err := r.own.CheckEnd(values.Text("from"), values.Text("topic"), sent.Transfer); err != nil {
		return r, err
	}
	if r.gossip, err = gossipConfig(r.own); err != nil {
		return r, err
	}
	if r.own.Fleet.DataDir, err = dataDir(r.own); err != nil {
		return r, err
	}
	if err := config.OutsideData(r.FailedDir, r.own.Fleet.DataDir); err != nil {
		return r, err
	}
	if r.gossip.Bind != "" && r.inside() {
		return r, config.Usage("--gossip-listen: a coordinator file belongs to one node; a fleet keeps its work in a cluster or a bucket (--coordinator-bucket)")
	}
	if r.own.Scaling.Driver != "" && r.inside() {
		return r, config.Usage("--scale-driver: a coordinator file belongs to one node; machines that are started need a cluster or a bucket (--coordinator-bucket) for the state of the work")
	}
	r.settings = values.Of(settings)
	if r.follows != nil {
		settings = config.Settings(config.FleetFollow{})
	}
	if r.shared, err = sharedSettings(values, settings, slog.New(slog.DiscardHandler)); err != nil {
		return r, err
	}
	if r.trust, err = newTrust(values); err != nil {
		return r, err
	}
	delete(r.settings, "max-rate") // the node's; each worker receives its share
	delete(r.settings, "max-read-rate")
	delete(r.settings, "slots")
	return r, nil
}

// parseTask reads what the workers are to do, and returns the settings that it has.
func (r *runOptions) parseTask(values config.Values) ([]config.Setting, error) {
	switch {
	case values.Text("topic") != "":
		settings, err := settingsOf(config.Consume{}, values, "a stream (--topic)", config.FleetFollow{}, config.Import{})
		if err != nil {
			return nil, err
		}
		o, err := decodeConsume(values)
		r.task, r.Options = consumeTask(o), o.Options
		if err == nil && o.Stream.UntilEnd {
			err = config.Usage("--until-end ends a process: a node consumes until it is stopped; use rfsd consume")
		}
		if r.own.Node.Workers == 0 { // each works on all of its partitions at the same time
			r.own.Node.Workers = 1
		}
		return settings, err
	case values.Text("from") != "":
		settings, err := settingsOf(config.Import{}, values, "an import (--from)", config.FleetFollow{}, config.Consume{})
		if err != nil {
			return nil, err
		}
		o, err := decodeImport(values)
		r.task, r.Options = importTask(o), o.Options
		return settings, err
	}
	others := []any{struct{ Stream config.Stream }{}}
	follows := values.Text("follow") == "true"
	if !follows {
		others = append(others, struct {
			Rounds config.EachRound
			Blocks config.SourceBlocks
		}{})
	}
	settings, err := settingsOf(config.Migrate{}, values, "a migration (without --topic or --follow)", others...)
	if err == nil && follows {
		r.follows = &config.FleetFollow{}
		if err = config.Decode(values, r.follows); err == nil && r.own.End.Verify {
			err = config.Usage("--verify and --follow exclude each other: rfsd verify --changed compares what a round changed")
		}
	}
	if err != nil {
		return nil, err
	}
	r.Options, err = decodeMigrate(values)
	return settings, err
}

// settingsOf returns the settings of a task. Those that only others have are refused: a node has one task, and so have all nodes of
// its session.
func settingsOf(kind any, values config.Values, what string, others ...any) ([]config.Setting, error) {
	settings := config.Settings(kind)
	for _, other := range others {
		for _, s := range config.Settings(other) {
			if _, known := config.Find(settings, s.Name); !known && values[s.Name] != nil && !slices.Contains(leaseRules, s.Name) {
				return nil, config.Usage("--%s has no meaning for %s: a node migrates a snapshot, imports files, or consumes a stream, and so do all nodes of its session", s.Name, what)
			}
		}
	}
	return settings, nil
}

// leaseRules may be set for all sessions of a machine; windows and partitions have leases of their own.
var leaseRules = []string{"initial-lease-duration", "max-lease-duration", "max-item-attempts", "clock-skew-tolerance"}

// inside reports whether workers run in this process, because only it can open their store.
func (r runOptions) inside() bool { return !r.Shares() }

// nodeLog returns the log of a node on standard error, in a format of --log-format; auto is JSON.
func nodeLog(format string, level slog.Leveler) *slog.Logger {
	return slog.New(report.Handler(terminal.NewWriter(os.Stderr), format, false, report.LogOptions(level)))
}

// runNode runs the daemon.
func runNode(ctx context.Context, r runOptions) error {
	notify, err := daemon.NewNotifier()
	if err != nil {
		return err
	}
	var level slog.LevelVar
	level.Set(r.Log.Level)
	log, ring := keepLines(nodeLog(r.Log.Format, &level), &level, keptOfNode)
	log = log.With("node", r.own.Node.Name)
	id, err := r.own.API.TLS.Identity()
	if err != nil {
		return err
	}
	r.WarnOfRisks(log)
	if id != nil && time.Now().After(id.Expires()) {
		log.Error("the certificate of this node has expired: operators and other nodes refuse it until it is replaced (rfsctl cert create); work continues by the coordination store alone", "expired", id.Expires())
	}
	ctx, r.sent, err = r.Observe(ctx, "run", r.own.Node.Name, log)
	if err != nil {
		return err
	}
	defer r.sent.Stop()
	conf := daemon.Config{
		Name: r.own.Node.Name, Version: version, Session: r.Session, Workers: int(r.own.Node.Workers), MaxWorkers: r.own.Node.MaxWorkers, Memory: int64(r.own.Node.Memory),
		Scales: r.own.Scaling.Driver != "", EndWhenDone: r.own.Node.EndWhenDone, Sinks: eventSinks(r), Logs: ring, Log: log, Notify: notify,
		Reload: func() (string, error) { return reload(r, id, &level) },
	}
	closeStore := func() error { return nil }
	if r.inside() {
		host := newSlotHost(ctx, r.Options, log)
		host.task = r.task
		conf.Open, conf.Starter, conf.Set, closeStore = r.kind(host.shared.Open), host.starter(), host.shared.Follow, host.close
	} else {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("the program's own file: %w", err)
		}
		conf.Open = r.kind(func(ctx context.Context) (*cms.Coordinator, error) {
			coordinator, err := wiring.OpenCoordinator(ctx, r.Options)
			if err == nil {
				r.share(ctx, coordinator, log)
			}
			return coordinator, err
		})
		conf.Owner = r.Owner(r.own.Node.Name, log)
		conf.Starter = &daemon.Processes{
			Owner: conf.Owner, Program: program, Args: []string{r.workerCommand()}, Options: r.settings, Memory: int64(r.own.Node.Memory),
			Line: func(_, _ int, line []byte) {
				ring.Add(line)
				if r.Log.Format != "text" || !report.Relay(log.Handler(), line) {
					fmt.Fprintf(terminal.NewWriter(os.Stderr), "%s\n", line)
				}
			},
		}
	}
	conf.Send, conf.Read = r.NodeLimits(conf.Owner, log)
	var rounds *fleetRounds
	if r.follows != nil {
		rounds = newFleetRounds(r, log)
		conf.Work = rounds.work
	}
	done, err := runParts(ctx, r, conf, rounds, id, log)
	if conf.Owner != nil {
		if oerr := conf.Owner.Close(); oerr != nil {
			log.Warn("state of the node not removed", "error", oerr)
		}
	}
	if cerr := closeStore(); err == nil {
		err = cerr
	}
	if done == nil || !r.own.End.Verify {
		return err
	}
	return r.compare(ctx, done, err, log)
}

// compare compares the target with the snapshot of a migration that has ended with an error, or nil. All nodes that do so share the
// work.
func (r runOptions) compare(ctx context.Context, m *progress.Migration, ended error, log *slog.Logger) error {
	o := r.Options
	o.Snapshot = cmp.Or(o.Snapshot, m.Snapshot)
	memory := o.Memory().Input()
	counted, err := wiring.OpenCounted(ctx, o, memory)
	if err != nil {
		return errors.Join(err, ended)
	}
	compared, err := compareAgain(ctx, o, counted, memory, log, nil)
	if err == nil {
		err = report.Verification(r.out, compared)
		if code, _ := exit.Of(err); code == exit.Documents && ended != nil { // which it has reported, or something worse
			err = nil
		}
	}
	if err != nil && ended != nil {
		log.Warn(ended.Error())
	}
	return errors.Join(err, ended)
}

// workerCommand is the command whose processes do the work.
func (r runOptions) workerCommand() string {
	if r.task != nil {
		return r.task.command
	}
	return "worker"
}

// runParts runs the daemon and its part of the fleet. It returns the migration when that has ended, nil when the node was stopped.
func runParts(ctx context.Context, r runOptions, conf daemon.Config, rounds *fleetRounds, id *cert.Identity, log *slog.Logger) (*progress.Migration, error) {
	var streams *api.Streams
	var peer api.Peer
	if id != nil && r.gossip.Bind != "" {
		streams = api.NewStreams(id, r.own.API.Advertise)
	}
	conf.Serve = func(d *daemon.Daemon) (func() error, error) {
		o := r.own.API
		if err := r.sent.Measure(ctx, d); err != nil {
			return nil, err
		}
		return api.Open(api.Config{
			Socket: socketPath(o.Socket, "operator.sock"), StatusSocket: socketPath(o.StatusSocket, "status.sock"), Listen: o.Listen, Identity: id, Hosts: o.Hosts,
			Page: web.Handler(), Raft: streams, Peer: peer, Refused: d.ConnectionRefused, Log: log,
		}, d)
	}
	if r.gossip.Bind == "" {
		d := daemon.New(conf)
		defer d.HandleSignals()()
		return ending(r.runDriving(ctx, d, rounds, func() []schedule.Load { return []schedule.Load{d.Load()} }, func() schedule.NodePosition { return schedule.NodePosition{} }, log), r, d)
	}
	var err error
	r.gossip.Log = log
	if r.gossip.Port, err = gossip.Listen(r.gossip); err != nil { // held from now on, while the store does not answer, too
		return nil, fmt.Errorf("--gossip-listen: %w", err)
	}
	var d *daemon.Daemon
	scheduler := &schedule.Scheduler{}
	conf.Scheduler = scheduler
	self := &fleet.Member{Load: func() schedule.Load { return d.Load() }, Log: log}
	self.Begin = func(ctx context.Context) (*fleet.Fleet, func(), error) {
		return r.beginFleet(ctx, id, streams, scheduler, func() *daemon.Daemon { return d }, log)
	}
	defer func() {
		if p := r.gossip.Port; p != nil { // this node never took part
			_ = p.Close()
		}
	}()
	if keys := r.own.Fleet.Keys; keys != "" {
		self.Keys = func() (gossip.Keys, error) { return gossip.LoadKeys(keys) }
	}
	peer = self
	conf.Fleet, conf.Peers, conf.Mirror, conf.Position = self, self, self, scheduler.Position
	inner := conf.Reload
	conf.Reload = func() (string, error) {
		if err := self.Rotate(); err != nil {
			return "", err
		}
		return inner()
	}
	d = daemon.New(conf)
	defer d.HandleSignals()()
	beside, end := context.WithCancel(context.WithoutCancel(ctx)) // until the workers are gone
	defer end()
	var joined sync.WaitGroup
	joined.Go(func() {
		if err := self.Run(beside); err != nil {
			log.Info("leaving the gossip cluster failed", "error", fault.Text(err))
		}
	})
	err = r.runDriving(ctx, d, rounds, self.Loads, scheduler.Position, log)
	end()
	joined.Wait()
	return ending(err, r, d)
}

// runDriving runs the daemon. Meanwhile it drives the rounds of a cluster that is followed, and starts and ends machines, if this node
// does so.
func (r runOptions) runDriving(ctx context.Context, d *daemon.Daemon, rounds *fleetRounds, loads func() []schedule.Load, position func() schedule.NodePosition, log *slog.Logger) error {
	var drivers sync.WaitGroup
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	if s := r.scaler(d, log); s != nil {
		drivers.Go(func() { r.drive(beside, s, loads, log) })
	}
	following, endFollowing := context.WithCancel(ctx)
	defer endFollowing()
	if rounds != nil {
		drivers.Go(func() { rounds.drive(following, position) })
	}
	err := d.Run(ctx)
	end()
	endFollowing()
	drivers.Wait()
	if rounds != nil {
		err = errors.Join(err, rounds.close())
	}
	return err
}

// ending returns the migration of a node that has ended, nil when it is not complete, and the error of the node: the exit code of a
// migration with losses, when it was to run to its end.
func ending(err error, r runOptions, d *daemon.Daemon) (*progress.Migration, error) {
	if err != nil || !r.own.Node.EndWhenDone {
		return nil, err
	}
	return report.Ended(d.Migration(), r.AcceptReduced)
}

// kind returns open for the items that this node works on.
func (r runOptions) kind(open func(context.Context) (*cms.Coordinator, error)) func(context.Context) (*cms.Coordinator, error) {
	if r.task == nil {
		return open
	}
	return func(ctx context.Context) (*cms.Coordinator, error) {
		c, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return c.OfKind(ctx, r.task.kind)
	}
}

func eventSinks(r runOptions) []events.Sink {
	var all []events.Sink
	if r.own.Events.Webhook != "" {
		all = append(all, sinks.NewWebhook(r.own.Events.Webhook))
	}
	if len(r.own.Events.Command) > 0 {
		all = append(all, sinks.NewCommand(r.own.Events.Command))
	}
	return all
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
	if r.config == "" || r.levelGiven {
		return level.Level().String(), nil
	}
	values, err := loadSettings(r.config)
	if err != nil {
		return "", err
	}
	var o struct{ Log config.Log }
	if err := config.Decode(values, &o); err != nil {
		return "", err
	}
	level.Set(o.Log.MinLevel())
	return level.Level().String(), nil
}

// socketPath resolves auto and off.
func socketPath(given, name string) string {
	switch given {
	case "off", "":
		return ""
	case "auto":
		// The service manager makes the directory, and may name several.
		dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
		if dir == "" {
			return ""
		}
		return filepath.Join(dir, name)
	}
	return given
}
