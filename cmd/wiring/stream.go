package wiring

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

// Stream is the part of one process in consuming a stream.
type Stream struct {
	*consume.Task
	in   *Resources
	Kept *cms.Coordinator
	opened
}

// OpenStream connects to the topic and to the target, and opens the state of the work.
func OpenStream(ctx context.Context, o StreamOptions, log *slog.Logger, in *Resources) (*Stream, error) {
	h := &Stream{in: in}
	give := func(err error) (*Stream, error) { return nil, errors.Join(err, h.Close()) }
	transport, err := o.Stream.Config()
	if err != nil {
		return give(err)
	}
	s := o.Stream
	topic, err := kafka.New(kafka.Config{
		Brokers: s.Brokers, Topic: string(s.Topic), Group: s.Group, TLS: transport, Mechanism: s.SASL, Username: s.Username, Password: s.Password, PlainLoopback: s.PlainLoopback,
		Fetch: int64(s.Fetch), Batch: int64(s.Batch), Client: "rfsd",
	})
	if err != nil {
		return give(err)
	}
	h.opened = append(h.opened, topic.Close)
	r, err := openReceiver(ctx, o.Options, log, in, &h.opened)
	if err != nil {
		return give(err)
	}
	h.Kept = r.kept
	budget.LimitMemory(o.Options.Memory().Budget(false), os.Getenv)
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	h.Task = &consume.Task{
		Stream: topic, Name: string(s.Topic), Group: s.Group, Store: r.store, Session: session.IdentityOf(r.kept), Intent: session.OrdersOf(r.kept).Intent, Clock: timing.SystemClock(), Log: log,
		Indices:  &importer.TargetIndices{Cluster: r.client, Creates: o.create, Ledger: r.ledger},
		Identity: r.identity, Destination: r.sender,
		Failed: r.failed, Bulk: bulkOptions(o.Options, in, r.client), Format: consume.Format(s.Format), Index: s.IndexOrTopic(), Latest: s.Start == "latest", IncludeSystem: o.includeSystem,
		MaxSource: r.longest, UntilEnd: s.UntilEnd, Lease: s.Lease, SkewTolerance: o.skewTolerance(), Unavailable: o.Unavailable, Token: r.writer, Node: host,
	}
	return h, nil
}

// Sample returns what the process has done so far.
func (h *Stream) Sample() metrics.Sample {
	sum, own := h.in.counted(), h.Own()
	sum.Documents, sum.Failed, sum.SourceBytes = own.Documents, own.Failed, own.Bytes
	return sum
}
