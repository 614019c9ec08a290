package bulk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
)

// acquireAll takes places until none is free at once, and returns their epochs.
func acquireAll(t *testing.T, g *aimdLimiter) (epochs []int) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		epoch, err := g.acquire(ctx)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			return epochs
		}
		epochs = append(epochs, epoch)
		if len(epochs) > 1000 {
			t.Fatal("the gate has no bound")
		}
	}
}

func TestGateBoundsRequestsUnderWay(t *testing.T) {
	for _, c := range []struct {
		name   string
		limit  int
		ends   []outcome // of the first full window, in order; the others stay under way
		places int       // under way at most after that
		epoch  int
	}{
		{"to the limit from the beginning", 8, nil, 8, 0},
		{"to the limit when requests say nothing", 8, []outcome{neutral, neutral, neutral}, 8, 0},
		{"to half after an overload", 8, []outcome{overloaded}, 4, 1},
		{"to half once for all that were in progress together", 8, []outcome{overloaded, overloaded, overloaded, overloaded, overloaded}, 4, 1},
		{"to one at least", 1, []outcome{overloaded}, 1, 1},
		{"never to more than the limit", 2, []outcome{accepted, accepted}, 2, 0},
		{"to half although others went well", 8, []outcome{accepted, overloaded, neutral, neutral}, 4, 1},
		{"one more after a limit's worth of good answers", 8, []outcome{overloaded, accepted, accepted, accepted, accepted, accepted}, 5, 1},
		{"no more after less than a limit's worth", 8, []outcome{overloaded, accepted, accepted, accepted}, 4, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newAIMDLimiter(c.limit)
				first := acquireAll(t, g)
				if len(first) != c.limit {
					t.Fatalf("%d places at first, want %d", len(first), c.limit)
				}
				for i, o := range c.ends {
					g.release(first[i], o)
				}
				busy := c.limit - len(c.ends)
				if got := busy + len(acquireAll(t, g)); got != max(c.places, busy) || g.epoch != c.epoch {
					t.Errorf("%d places in epoch %d, want %d in %d", got, g.epoch, c.places, c.epoch)
				}
			})
		})
	}
}

func TestGateHalvesAgainInTheNextEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newAIMDLimiter(8)
		for want := 4; want >= 1; want /= 2 {
			all := acquireAll(t, g)
			for _, epoch := range all {
				g.release(epoch, overloaded)
			}
			if got := int(g.limit); got != want {
				t.Fatalf("limit %d, want %d", got, want)
			}
		}
	})
}

func TestGateWakesAWaiterWhenAPlaceIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newAIMDLimiter(1)
		epoch, err := g.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			_, err := g.acquire(t.Context())
			got <- err
		}()
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("two places of one: %v", err)
		default:
		}
		g.release(epoch, neutral)
		synctest.Wait()
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the waiter was not woken")
		}
	})
}

func TestAnswersTellTheLoadOfTheTarget(t *testing.T) {
	refused := func(status ...int) Result {
		var r Result
		for i, s := range status {
			r.Refused = append(r.Refused, Refusal{Pos: i, Status: s})
		}
		return r
	}
	for _, c := range []struct {
		name string
		res  Result
		err  error
		want outcome
	}{
		{"all taken", Result{}, nil, accepted},
		{"documents refused permanently", refused(400, 409), nil, accepted},
		{"one document 429", refused(400, 429), nil, overloaded},
		{"one document 503", refused(503, 400), nil, overloaded},
		{"one document 500", refused(500), nil, accepted},
		{"no answer", Result{}, fmt.Errorf("x: %w", fault.ErrUnavailable), overloaded},
		{"a request that is refused permanently", Result{}, fault.ErrRejected, neutral},
		{"a request that is too large", Result{}, ErrTooLarge, neutral},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := loadOf(c.res, c.err); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// An overload that documents alone report relieves the target as one of the whole request does.
func TestDocumentsRefusedForLoadHalveTheRequestsUnderWay(t *testing.T) {
	for _, status := range []int{429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refusing atomic.Bool
				refusing.Store(true)
				s := &target{}
				s.answer = func(ctx context.Context, ids []string, _ int) (Result, error) {
					if err := wait.For(ctx, time.Second); err != nil {
						return Result{}, err
					}
					if refusing.Load() {
						return Result{Refused: []Refusal{{Pos: 0, Status: status}}}, nil
					}
					return Result{}, nil
				}
				l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 1, MaxInFlight: 8, Jitter: func() float64 { return 0 }})
				add(t, l, 0, 9)
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
				if n := s.underWay(); n != 8 {
					t.Errorf("%d requests at first", n)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if n := s.underWay(); n != 4 {
					t.Errorf("%d requests after an overload, want 4", n)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if n := s.underWay(); n != 2 {
					t.Errorf("%d requests after a second overload, want 2", n)
				}
				refusing.Store(false)
				if err := l.Flush(t.Context()); err != nil || l.Counts().Indexed != 9 {
					t.Errorf("%v, %+v", err, l.Counts())
				}
			})
		})
	}
}
