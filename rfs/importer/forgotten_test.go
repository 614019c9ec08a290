package importer_test

import (
	"context"
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
