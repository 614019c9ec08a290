package importer_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/primitive"
	"github.com/rfsd/rfsd/rfs/importer"
)

// forgetful acknowledges the creation of a partition that it then does not have, once.
type forgetful struct {
	primitive.Store
	forgot string
}

func (f *forgetful) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if f.forgot == "" && strings.HasPrefix(r.ID, "part:") && r.Revision == (cms.Revision{}) {
		f.forgot = r.ID
		return cms.Revision{Seq: 1 << 40, Term: 1}, nil
	}
	return f.Store.Put(ctx, r)
}

// TestAPartitionThatTheStoreForgotIsMadeAgain: the store loses an acknowledged write, as in a failover.
func TestAPartitionThatTheStoreForgotIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, counts := w.corpus()
		f := &forgetful{Store: w.store}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s, err := w.node(func(i *importer.Import) { i.Store = f }).Run(ctx)
		if err != nil || !s.Complete || s.Counts != counts {
			t.Errorf("complete %v, %+v, want %+v: %v", s.Complete, s.Counts, counts, err)
		}
		w.arrived(want)
		if f.forgot == "" {
			t.Error("nothing was forgotten")
		}
	})
}

// witness notes the partitions that are made although the stored state knows nothing of their windows, and those that
// are removed although it has not counted them.
type witness struct {
	primitive.Store
	made, unknown, removed, uncounted int
}

// pending reports whether the stored state knows a window that is not counted.
func (s *witness) pending(ctx context.Context, number string) bool {
	var known struct {
		Pending map[string]json.RawMessage `json:"pending"`
	}
	state, err := s.Record(ctx, "import:state")
	if err == nil {
		err = json.Unmarshal(state.Body, &known)
	}
	return err == nil && known.Pending[number] != nil
}

func (s *witness) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if number, isPart := strings.CutPrefix(r.ID, "part:import/"); isPart && r.Revision == (cms.Revision{}) {
		s.made++
		if !s.pending(ctx, number) {
			s.unknown++
		}
	}
	return s.Store.Put(ctx, r)
}

func (s *witness) Delete(ctx context.Context, r cms.Record) error {
	if number, isPart := strings.CutPrefix(r.ID, "part:import/"); isPart {
		s.removed++
		if s.pending(ctx, number) {
			s.uncounted++
		}
	}
	return s.Store.Delete(ctx, r)
}

// diesAtTheState dies with its first write of the state, which is not done.
type diesAtTheState struct{ *mortal }

func (d *diesAtTheState) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if r.ID == "import:state" {
		d.die()
	}
	return d.mortal.Put(ctx, r)
}

func TestAWindowIsWrittenDownBeforeItsPartitionIsMade(t *testing.T) {
	t.Run("the stored state knows the window of each partition until it has counted it", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			want, counts := w.corpus()
			s := &witness{Store: w.store}
			got := run(t, w.node(func(i *importer.Import) { i.Store, i.Workers = s, 1 }))
			if got.Counts != counts || s.made == 0 || s.unknown != 0 {
				t.Errorf("%d of %d partitions were made before their windows were stored; %+v, want %+v", s.unknown, s.made, got.Counts, counts)
			}
			if s.removed == 0 || s.uncounted != 0 {
				t.Errorf("%d of %d partitions were removed before they were counted", s.uncounted, s.removed)
			}
			w.arrived(want)
		})
	})
	t.Run("a leader that dies with its first state has begun nothing", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			want, counts := w.small()
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			d := &diesAtTheState{&mortal{store: w.store, target: w.target, kill: kill, left: 1 << 30}}
			if _, err := w.node(func(i *importer.Import) { i.Store = d }).Run(ctx); err == nil && !d.died() {
				t.Fatal("nobody died")
			}
			w.noPartitions()
			// The next one cuts other windows, of which a partition of the dead leader would hold the numbers.
			if s := run(t, w.node(func(i *importer.Import) { i.Window = 600 })); !s.Complete || s.Counts != counts {
				t.Errorf("%+v, want %+v", s, counts)
			}
			w.arrived(want)
		})
	})
}
