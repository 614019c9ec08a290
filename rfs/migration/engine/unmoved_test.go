package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

func TestALeaseWithoutProgressBlamesTheItemOnlyForADocumentItStandsStillOn(t *testing.T) {
	for _, c := range []struct {
		name string
		u    unmoved
		want cms.EarlyRelease
	}{
		{"the target refused everything", unmoved{requests: 9, refused: 9, read: true, since: 400, age: 450}, cms.EarlyRelease{Cause: cms.CauseBackpressure, Longer: true}},
		{"the target did not answer", unmoved{requests: 4, read: true, since: 400, age: 450}, cms.EarlyRelease{Cause: cms.CauseOutage, Longer: true}},
		{"the shard took too long to open", unmoved{since: 450, age: 450}, cms.EarlyRelease{Cause: cms.CauseOutage, Longer: true}},
		{"documents are read, slowly", unmoved{read: true, since: 20, age: 450}, cms.EarlyRelease{Cause: cms.CauseOutage, Longer: true}},
		{"stands still on a document", unmoved{read: true, since: 300, age: 450}, cms.EarlyRelease{Cause: cms.CauseNone}},
	} {
		if got := c.u.returned(); got.Cause != c.want.Cause || got.Longer != c.want.Longer {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// alike is a sender that answers each request alike.
type alike struct {
	result bulk.Result
	err    error
}

func (a alike) Send(context.Context, []byte, int) (bulk.Result, error) { return a.result, a.err }

func TestRequestsOfWhichNothingWasTakenAreCounted(t *testing.T) {
	refusals := func(n int) bulk.Result { return bulk.Result{Refused: make([]bulk.Refusal, n)} }
	for _, c := range []struct {
		name    string
		to      alike
		n       int
		refused int64
	}{
		{"all was taken", alike{}, 3, 0},
		{"a part was refused", alike{result: refusals(2)}, 3, 0},
		{"all was refused", alike{result: refusals(3)}, 3, 1},
		{"no answer", alike{err: fault.ErrUnavailable}, 3, 1},
		{"nothing was sent", alike{}, 0, 0},
	} {
		s := &sent{next: c.to}
		if _, err := s.Send(t.Context(), nil, c.n); !errors.Is(err, c.to.err) || s.requests.Load() != 1 || s.refused.Load() != c.refused {
			t.Errorf("%s: %d requests, %d refused, %v", c.name, s.requests.Load(), s.refused.Load(), err)
		}
	}
}
