package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/daemon/mirror"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/testing/boltstore"
)

type anywhere struct{}

func (anywhere) Made(string) bool { return false }

func (anywhere) Create(context.Context, string) error { return nil }

func (anywhere) Ensure(context.Context, []byte) error        { return nil }
func (anywhere) Record(context.Context, []doc.Failure) error { return nil }
func (anywhere) Sync(context.Context) error                  { return nil }

// sluggish accepts a body when the test allows it.
type sluggish chan struct{}

func (s sluggish) Send(ctx context.Context, _ []byte, _ int) (bulk.Result, error) {
	select {
	case <-s:
		return bulk.Result{}, nil
	case <-ctx.Done():
		return bulk.Result{}, ctx.Err()
	}
}

// readMirrored reads an import as shown by another node with the leader's reading.
func readMirrored(t *testing.T, c *cms.Coordinator) (*progress.Migration, []status.Item, error) {
	t.Helper()
	read, err := status.ReadStore(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := mirror.Pack(read)
	if err != nil {
		t.Fatal(err)
	}
	arrived, err := mirror.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	want, wanted, err := status.Sum(read)
	if err != nil {
		t.Fatal(err)
	}
	m, items, err := status.Sum(arrived)
	if a, b := text(t, []any{m, items}), text(t, []any{want, wanted}); a != b {
		t.Errorf("another node shows\n%s\nthe leader has read\n%s", a, b)
	}
	return m, items, err
}

// TestAnImportIsShownAsAMigrationIs reads an import while a window is in progress, after its process died, and at the end.
func TestAnImportIsShownAsAMigrationIs(t *testing.T) {
	dir := t.TempDir()
	size := 0
	for _, name := range []string{"a.ndjson", "b.ndjson", "c.ndjson.gz"} {
		text := ""
		for n := range 3 {
			text += fmt.Sprintf(`{"index":{"_index":"i","_id":"%s-%d"}}`+"\n{}\n", name, n)
		}
		size += len(text)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil { // the last one is not packed: damaged
			t.Fatal(err)
		}
	}
	store := boltstore.Open(t)
	coordinator := cms.New(cms.Config{Store: store, Creator: "test"})
	files, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	go1, ended := make(sluggish), make(chan error, 1)
	held := make(chan importer.Hold, 100)
	m := &importer.Import{
		Source: files, Store: store, Session: session.IdentityOf(coordinator), Clock: timing.SystemClock(), Log: slog.New(slog.DiscardHandler), Indices: anywhere{}, Failed: anywhere{}, Token: "host_pid1_x",
		Destination: engine.ToCluster(go1, engine.Limits{Connections: 64}), Bulk: bulk.Options{MaxBytes: 1 << 20, MaxInFlight: 1},
		Tell: func(h importer.Hold) { held <- h },
	}
	coordinator, err = coordinator.OfKind(t.Context(), importer.Kind)
	if err != nil {
		t.Fatal(err)
	}
	if x, items, err := readMirrored(t, coordinator); err != nil || x.Complete || len(items) != 0 || x.Phases[0].State != "NOT_STARTED" {
		t.Fatalf("before the start: %+v, %v", x, err)
	}
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	go func() { _, err := m.Run(ctx); ended <- err }()
	h := <-held
	for h.File == "c.ndjson.gz" || h.Left == 0 { // items come in any order; the damaged one ends at once
		h = <-held
	}
	lease := Lease{Item: h.Window, Holder: h.Holder}
	x, items, err := readMirrored(t, coordinator)
	if err != nil || x.Totals.Leased != 1 || x.Totals.Items != 3 || x.Totals.ItemsOpen < 2 || x.Totals.Bytes != int64(size) || x.Phases[0].State != "IN_PROGRESS" || len(items) != 3 {
		t.Fatalf("in progress: %+v, %v", x, err)
	}
	for i, x := range items {
		if leased := x.ID == h.Window; x.Index != []string{"a.ndjson", "b.ndjson", "c.ndjson.gz"}[i] || leased != (x.State == status.Leased) || leased != (x.Expiry != nil) {
			t.Errorf("%+v, leased is %s", x, h.Window)
		}
	}
	if why, err := leaseOverSince(t.Context(), coordinator, lease); why != "" || err != nil {
		t.Errorf("a lease that runs is over: %q, %v", why, err)
	}
	if err := freeLease(t.Context(), coordinator, "", &lease, cms.CauseKilled); err != nil { // as if it had been killed
		t.Error(err)
	}
	if why, err := leaseOverSince(t.Context(), coordinator, lease); why == "" || err != nil {
		t.Errorf("a lease that was freed is not over: %v", err)
	}
	close(go1)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	x, items, err = readMirrored(t, coordinator)
	if err != nil || !x.Complete || x.Totals.Indexed != 6 || x.Totals.Items != 3 || x.Totals.ItemsOpen != 0 || x.Totals.ItemsBad != 1 || x.Totals.BytesDone != int64(size) || len(items) != 3 {
		t.Errorf("at the end: %+v %+v, %v", x.Totals, items, err)
	}
	if len(x.Failures) != 1 || x.Failures[0].Count != 1 || len(x.Failures[0].Examples) != 1 || x.Phases[0].State != "FAILED" {
		t.Errorf("%+v %+v", x.Failures, x.Phases)
	}
}
