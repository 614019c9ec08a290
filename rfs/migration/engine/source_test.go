package engine

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// noFailures is a record of failed documents for data without any.
type noFailures struct{ bulk.Recorder }

// ordinals is a source whose records have ordinals up to an end, and nothing to send.
type ordinals struct{ at, end int64 }

func (o *ordinals) Open(context.Context, cms.ItemID, *bulk.Options) (Reading, error) { return o, nil }
func (o *ordinals) Bytes(cms.ItemID) int64                                           { return 0 }
func (o *ordinals) Wrap(*bulk.Options)                                               {}
func (o *ordinals) End() int64                                                       { return o.end }
func (o *ordinals) Close() error                                                     { return nil }

func (o *ordinals) Next(_ context.Context, to *Sink, _ int) error {
	if o.at == o.end {
		return io.EOF
	}
	to.Read(o.at)
	to.Pass(o.at)
	o.at++
	return nil
}

func (o *ordinals) Checks(int64, time.Duration, time.Duration) (json.RawMessage, error) {
	return nil, nil
}

// TestWorkDoneAloneKnowsItsLastRecord: it counts the ordinals since the store knows where the worker stands.
func TestWorkDoneAloneKnowsItsLastRecord(t *testing.T) {
	lease, _ := leaseOf(t, timing.SystemClock())
	log := slog.New(slog.DiscardHandler)
	j := &job{
		runner: &Runner{Clock: timing.SystemClock(), Destination: ToNowhere(), Log: log, Failed: noFailures{}}, lease: lease, id: lease.ID,
		from: &ordinals{end: 20 * part}, log: log, alone: &alone{records: part},
		guard: func(context.Context, time.Duration) error { return nil },
	}
	defer j.close()
	if err := j.run(t.Context(), t.Context()); err != nil || j.alone.last < j.source.End()-part {
		t.Errorf("it ends at %d of %d: %v", j.alone.last, j.source.End(), err)
	}
}

func TestProgress_Adds(t *testing.T) {
	one := Progress{Documents: 1, Bytes: 2, Failed: 3, Resent: 4, Retries: 5, ShardBytes: 6}
	var sum Progress
	sum.add(one)
	sum.add(one)
	if want := (Progress{Documents: 2, Bytes: 4, Failed: 6, Resent: 8, Retries: 10, ShardBytes: 12}); sum != want {
		t.Errorf("%+v, want %+v", sum, want)
	}
}
