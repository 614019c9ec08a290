package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/document/doc"
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

func oneLease(t *testing.T) (*cms.Lease, *cms.Coordinator) {
	t.Helper()
	store, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "state.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	if _, err := c.SeedItems(t.Context(), slices.Values([]cms.ItemID{{Index: "logs"}})); err != nil {
		t.Fatal(err)
	}
	l, err := c.AcquireNext(t.Context(), "holder", nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, c
}

// TestAnItemBelowItsEndIsNotCompleted: whatever made the reader end, an item is complete at its last ordinal only.
func TestAnItemBelowItsEndIsNotCompleted(t *testing.T) {
	for _, c := range []struct {
		name    string
		ordinal int64 // of the shard's end
		outcome Outcome
	}{
		{"one document is missing", 2, Released},
		{"every document is settled", 1, Completed},
	} {
		t.Run(c.name, func(t *testing.T) {
			lease, coordinator := oneLease(t)
			loader := bulk.New(t.Context(), bulk.Options{Sender: &export.Discard{}, Recorder: noFailures{}})
			d := doc.Document{Index: []byte("i"), ID: []byte("1"), Source: []byte("{}")}
			if err := errors.Join(loader.Add(t.Context(), &d), loader.Flush(t.Context())); err != nil {
				t.Fatal(err)
			}
			j := &job{
				runner: &Runner{Clock: timing.SystemClock(), Destination: ToNowhere()}, lease: lease, id: lease.ID, loader: loader,
				out: discarded{}, source: &ordinals{end: c.ordinal}, guard: func(context.Context, time.Duration) error { return nil },
			}
			outcome, err := j.complete(t.Context())
			if outcome != c.outcome || (err == nil) != (c.outcome == Completed) || err != nil && !strings.Contains(err.Error(), "watermark 1 of 2") {
				t.Errorf("%v: %v", outcome, err)
			}
			if it, err := coordinator.Item(t.Context(), lease.ID); err != nil || it.Open() != (c.outcome == Released) {
				t.Errorf("left as %+v, %v", it, err)
			}
		})
	}
}

// TestWorkDoneAloneKnowsItsLastRecord: it counts the ordinals since the store knows where the worker stands.
func TestWorkDoneAloneKnowsItsLastRecord(t *testing.T) {
	lease, _ := oneLease(t)
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
