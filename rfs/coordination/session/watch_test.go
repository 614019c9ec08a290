package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// recordsOf is a store whose records fail from a given time on, while its items remain.
type recordsOf struct {
	cms.Store
	fails atomic.Pointer[error]
}

func (s *recordsOf) Record(ctx context.Context, id string) (cms.Record, error) {
	if err := s.fails.Load(); err != nil {
		return cms.Record{}, *err
	}
	return s.Store.Record(ctx, id)
}

// TestRecords_WatchStoreThatVanishes: a command ends when the store of its orders was deleted, but not when the store does not answer.
func TestRecords_WatchStoreThatVanishes(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails error
		ends  bool
	}{
		{"deleted", fmt.Errorf("GET: %w", cms.ErrStoreGone), true},
		{"away", fmt.Errorf("no route to host: %w", fault.ErrUnavailable), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "state.db"), time.Now)
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close() //nolint:errcheck // it is thrown away
				store := &recordsOf{Store: file}
				coordinator := cms.New(cms.Config{Store: store, Creator: "test"})
				watched, stop, err := session.OrdersOf(coordinator).Watch(t.Context(), 2*time.Second, func(session.Limits) {}, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				time.Sleep(time.Minute)
				if watched.Err() != nil {
					t.Fatal("it ended while the store was there")
				}
				store.fails.Store(&c.fails)
				time.Sleep(5 * time.Second)
				if ended := watched.Err() != nil; ended != c.ends || ended && !errors.Is(context.Cause(watched), cms.ErrStoreGone) {
					t.Errorf("ended: %v, %v", ended, context.Cause(watched))
				}
			})
		})
	}
}
