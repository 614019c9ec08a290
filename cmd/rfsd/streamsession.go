package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/stream/consume"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/rfs/stream/kafka"
)

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
	give := func(err error) (*streamSession, error) { return nil, errors.Join(err, h.Close()) }
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

// Sample returns what the process has done so far.
func (h *streamSession) Sample() metrics.Sample {
	sum, own := h.in.counters.Sample(), h.Own()
	sum.Documents, sum.Failed, sum.SourceBytes = own.Documents, own.Failed, own.Bytes
	return sum
}
