package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/foreground"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/stream/consume"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/rfs/stream/kafka"
)

func consumeCommand() *cli.Command {
	return config.Raw[config.ConsumeCommand](cli.Command{
		Name:        "consume",
		Usage:       "bring the messages of a Kafka topic into a cluster; any number of processes share the partitions",
		Description: help.Consume,
	}, func(ctx context.Context, call *config.Call) error {
		return runOrWork(ctx, call, decodeConsume, runConsume)
	})
}

// decodeConsume makes the options of a stream's session of given settings.
func decodeConsume(values config.Values) (consumeOptions, error) {
	var c config.Consume
	if err := config.Decode(values, &c); err != nil {
		return consumeOptions{}, err
	}
	return newConsumeOptions(version, c)
}

// streamSession is the part of one process in consuming a stream.
type streamSession struct {
	*consume.Task
	in   *resources
	kept *cms.Coordinator
	opened
}

// openConsume puts the parts together.
func openConsume(ctx context.Context, o consumeOptions, log *slog.Logger, in *resources) (*streamSession, error) {
	h := &streamSession{in: in}
	give := func(err error) (*streamSession, error) { return nil, errors.Join(err, h.close()) }
	transport, err := o.stream.Config()
	if err != nil {
		return give(err)
	}
	s := o.stream
	topic, err := kafka.New(kafka.Config{
		Brokers: s.Brokers, Topic: string(s.Topic), Group: s.Group, TLS: transport, Mechanism: s.SASL, Username: s.Username, Password: s.Password, PlainLoopback: s.PlainLoopback,
		Fetch: int64(s.Fetch), Batch: int64(s.Batch), Client: "rfsd",
	})
	if err != nil {
		return give(err)
	}
	h.opened = append(h.opened, topic.Close)
	r, err := openReceiver(ctx, o.options, log, in, &h.opened)
	if err != nil {
		return give(err)
	}
	h.kept = r.kept
	budget.LimitMemory(o.options.memory().Budget(false), os.Getenv)
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	h.Task = &consume.Task{
		Stream: topic, Name: string(s.Topic), Group: s.Group, Store: r.store, Session: session.IdentityOf(r.kept), Intent: session.OrdersOf(r.kept).Intent, Clock: timing.SystemClock(), Log: log,
		Indices:  &importer.TargetIndices{Cluster: r.client, Create: o.create, Ledger: r.ledger},
		Identity: r.identity, Destination: r.sender,
		Failed: r.failed, Bulk: bulkOptions(o.options, in, r.client), Format: consume.Format(s.Format), Index: s.IndexOrTopic(), Latest: s.Start == "latest", IncludeSystem: o.includeSystem,
		MaxSource: r.longest, UntilEnd: s.UntilEnd, Lease: s.Lease, SkewTolerance: o.skewTolerance(), Unavailable: o.unavailable, Token: r.writer, Node: host,
	}
	return h, nil
}

func (h *streamSession) name() string { return h.Token }

// work takes part until ctx ends, and returns the last record of a worker.
func (h *streamSession) work(ctx context.Context, tell func(daemon.Record)) (daemon.Record, error) {
	tell(daemon.Record{Phase: &daemon.WorkerPhase{Name: status.StreamPhase, State: session.PhaseInProgress}})
	_, err := h.Run(ctx)
	code, sample := exit.OK, h.sample()
	if err != nil {
		code = exit.Failed
	}
	return daemon.Record{Exit: codeOf(code), Outcome: "consume", Sample: &sample}, err
}

// sample is what the process did so far.
func (h *streamSession) sample() metrics.Sample {
	sum, own := h.in.counters.Sample(), h.Own()
	sum.Documents, sum.Failed, sum.SourceBytes = own.Documents, own.Failed, own.Bytes
	return sum
}

// shownConsume returns the part of this process as rfsctl status shows it.
func (h *streamSession) shown(o consumeOptions, log *slog.Logger, lines foreground.LogReader) *foreground.Command {
	return foreground.New(foreground.Config{
		Name: "consume", Version: version, Session: o.session, Slots: 1, Store: h.kept, Read: status.ReadStreamStore,
		Own: func() progress.Work {
			own := h.Own()
			return progress.Work{Documents: own.Documents, Failed: own.Failed, SourceBytes: own.Bytes, Running: own.Running}
		},
		Sample: h.sample,
		Clock:  timing.SystemClock(), Logs: lines, Log: log, Env: os.Getenv,
	})
}

// runConsume takes part in a session and reports it.
func runConsume(ctx context.Context, o consumeOptions, out *output.Writer) error {
	log, screen := report.Log(o.options.log)
	log, lines := keepLines(log, o.log.Level, keptLines)
	o.warnOfRisks(log)
	ctx, t, err := o.observe(ctx, "consume", "", log)
	if err != nil {
		return err
	}
	defer t.Stop()
	begin := time.Now()
	h, err := openConsume(ctx, o, log, newResources(o.options))
	if err != nil {
		return err
	}
	shown := h.shown(o, log, lines)
	if err := t.Measure(ctx, shown); err != nil {
		return errors.Join(err, h.close())
	}
	stopShowing := show(ctx, shown, log, screen)
	account, err := h.Run(ctx)
	stopShowing()
	r := &report.Stream{Account: account, Idle: len(account.Plan.Idle()), Session: o.session, Seconds: time.Since(begin).Seconds(), OwnMessages: h.Own().Documents, FailedDir: o.failedDir, UntilEnd: o.stream.UntilEnd}
	if err == nil {
		r.Redriven, err = deliveredLater(context.WithoutCancel(ctx), h.kept, r.Counts.Failed) // an end that was asked for has its account, too
		r.Counts.Failed, r.Counts.Indexed = r.Counts.Failed-r.Redriven, r.Counts.Indexed+r.Redriven
	}
	r.Failures = status.FailureClasses(ctx, h.kept, h.Failed, r.Counts.Failed, log)
	return r.Conclude(out, errors.Join(err, h.close()))
}
