package worker

import (
	"context"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/bulk"
)

// slowSender takes so long for each request, one after the other.
type slowSender struct {
	now  *time.Duration
	took []time.Duration
}

func (s *slowSender) Send(context.Context, []byte, int) (bulk.Result, error) {
	*s.now += s.took[0]
	s.took = s.took[1:]
	return bulk.Result{}, nil
}

func TestATrialRunMeasuresTheFirstRequestApart(t *testing.T) {
	tryOnce := func(sizes []int, took ...time.Duration) Tried {
		now := time.Duration(0)
		try := &trying{next: &slowSender{now: &now, took: took}, now: func() time.Duration { return now }}
		for _, n := range sizes {
			if _, err := try.Send(t.Context(), make([]byte, n), 1); err != nil {
				t.Fatal(err)
			}
			now += time.Hour // between requests nothing is under way
		}
		return try.tried(0)
	}
	cold := tryOnce([]int{100, 1000, 3000}, 5*time.Second, 2*time.Second, 3*time.Second)
	if cold.Sending != 10 || cold.Body != 4100 || cold.Requests != 3 || cold.WarmSending != 5 || cold.WarmBody != 4000 || cold.First != 5 || cold.FirstBody != 100 {
		t.Errorf("%+v", cold)
	}
	warm := tryOnce([]int{200}, time.Second)
	if warm.Sending != 1 || warm.WarmSending != 0 || warm.WarmBody != 0 || warm.First != 1 || warm.FirstBody != 200 {
		t.Errorf("%+v", warm)
	}
	for _, order := range [][2]Tried{{cold, warm}, {warm, cold}} {
		var sum Tried
		sum.Add(order[0])
		sum.Add(Tried{}) // a lease that sent nothing
		sum.Add(order[1])
		if sum.Sending != 11 || sum.Body != 4300 || sum.WarmSending != 5 || sum.WarmBody != 4000 || sum.First != 1 || sum.FirstBody != 200 {
			t.Errorf("%+v", sum)
		}
	}
}

func TestTheFirstEighthOfASampleIsSentAlone(t *testing.T) {
	for documents, want := range map[int64]int64{1: 1, 7: 1, 8: 1, 80: 10, 2000: 250} {
		s := &sample{documents: documents}
		flushed := []int64{}
		for s.passed < documents {
			s.passed++
			if s.warms() {
				flushed = append(flushed, s.passed)
			}
		}
		if len(flushed) != 1 || flushed[0] != want {
			t.Errorf("%d documents: sent at %v, want at %d", documents, flushed, want)
		}
	}
}
