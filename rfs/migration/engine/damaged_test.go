package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// torn is a repository of which one blob is damaged, from an offset on.
type torn struct {
	snapshot.Repository
	blob string
	from int64
	hits atomic.Int64
}

func (r *torn) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	rc, err := r.Repository.Open(ctx, name, off, n)
	if err != nil || !strings.HasSuffix(name, r.blob) {
		return rc, err
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		return nil, err
	}
	for i := range b {
		if off+int64(i) >= r.from {
			b[i] ^= 0xff
			r.hits.Add(1)
		}
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// TestRunner_DamagedShard covers a shard whose stored fields are damaged: the log has an error, and it is known how many documents are
// lost, whether some of them arrived or none.
func TestRunner_DamagedShard(t *testing.T) {
	for _, c := range []struct {
		name string
		from int64
		some bool // documents before the damage arrive
	}{{"from its start on", 0, false}, {"in its middle", 120_000, true}} {
		t.Run(c.name, func(t *testing.T) {
			store := boltstore.Open(t)
			to := &migrationtest.Sink{Docs: map[string][32]byte{}}
			x := migrationtest.NewShard(t, store, to, time.Hour, 50)
			all := x.Live(t, 1<<30)
			shard, err := snapshot.OpenShard(t.Context(), x.Reader.Repo, x.Entry.Locator, 0)
			if err != nil {
				t.Fatal(err)
			}
			var stored string
			for _, name := range shard.Directory().List() {
				if strings.HasSuffix(name, ".fdt") {
					f, err := shard.Directory().Open(name)
					if err != nil {
						t.Fatal(err)
					}
					stored, _ = f.Locate(0)
				}
			}
			broken := &torn{Repository: x.Reader.Repo, blob: stored, from: c.from}
			var log bytes.Buffer
			x.Reader.Repo, x.Runner.Log = broken, slog.New(slog.NewJSONHandler(&log, nil))
			outcome, err := x.Run(t.Context(), x.Lease(t))
			if outcome != engine.Failed || !errors.Is(err, fault.ErrCorrupt) || broken.hits.Load() == 0 {
				t.Fatalf("%s, %v, %d bytes of %s damaged", outcome, err, broken.hits.Load(), stored)
			}
			var last struct{ Level, Msg string }
			for line := range strings.Lines(log.String()) {
				if err := json.Unmarshal([]byte(line), &last); err != nil {
					t.Fatal(err)
				}
				if last.Msg == "lease ended" {
					break
				}
			}
			if last.Level != "ERROR" || last.Msg != "lease ended" {
				t.Errorf("the log has %+v", last)
			}
			it := x.Item(t)
			if (it.Counts.Live > 0) != c.some {
				t.Errorf("%d documents arrived", it.Counts.Live)
			}
			r, err := progress.ReadStore(t.Context(), x.Coordinator)
			if err != nil {
				t.Fatal(err)
			}
			m, _ := r.Sum()
			if got := m.Totals; got.ShardsFailed != 1 || got.ShardsDone != 0 || got.Undelivered != all-it.Counts.Live || got.Uncounted != 0 {
				t.Errorf("%+v, want %d of %d documents not delivered", got, all-it.Counts.Live, all)
			}
		})
	}
}
