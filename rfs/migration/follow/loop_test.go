package follow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/summary"
)

// foreground is a loop of a process in the foreground, which notes at which second of the test it did what.
type foreground struct {
	*fleetOf
	follow.Loop
	notes []string
	fails func(round int) (arrived bool, err error) // nil: rounds arrive
}

func newForeground(t *testing.T) *foreground {
	f := &foreground{fleetOf: newFleet(t)}
	c := f.chain(f.store)
	f.Loop = f.driver(c.Root).Loop
	f.Early = true
	f.Open = func(_ context.Context, g func(*cms.Coordinator) error) error { return g(c.Root) }
	f.Round = func(ctx context.Context) (bool, error) {
		x, _, err := c.Next(ctx, "", nil, settings)
		if err != nil {
			return false, err
		}
		f.note(fmt.Sprint("round ", x.Number))
		arrived := true
		if f.fails != nil {
			arrived, err = f.fails(x.Number)
		}
		if arrived {
			_, aerr := c.Arrive(ctx, x, "", &summary.Summary{Snapshot: fmt.Sprint("made-", x.Number), Complete: true})
			err = errors.Join(err, aerr)
		}
		return arrived, err
	}
	f.CutOver = func(ctx context.Context) (bool, error) {
		is, err := session.CutoversOf(c.Root).Return(ctx, "not now")
		f.note(fmt.Sprint("cut-over ", is.State))
		return false, err
	}
	f.Shows = func(_ context.Context, why follow.Pause) func() {
		is := "paused"
		switch {
		case !why.Again.IsZero():
			is = "back-off"
		case !why.Next.IsZero():
			is = fmt.Sprintf("until %.0f", why.Next.Sub(f.start).Seconds())
		}
		f.note(is)
		return func() { f.note("not " + is) }
	}
	return f
}

func (f *foreground) note(what string) {
	f.notes = append(f.notes, fmt.Sprintf("%.0f %s", time.Since(f.start).Seconds(), what))
}

// runs runs the loop for a time, and returns its error.
func (f *foreground) runs(t *testing.T, d time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return f.Run(ctx)
}

func (f *foreground) order(t *testing.T, o session.OrderKind) {
	t.Helper()
	if _, err := session.OrdersOf(f.root()).Issue(t.Context(), session.Order{Kind: o, Who: "ann"}); err != nil {
		t.Fatal(err)
	}
}

// TestLoop_InTheForeground orders work and pauses of a loop that starts early and ends with a failure.
func TestLoop_InTheForeground(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, f *foreground) // before the loop
		then func(t *testing.T, f *foreground) // after 30 seconds
		want []string
		err  error
	}{
		{name: "rounds on schedule", want: []string{"0 round 0", "0 until 60", "60 not until 60", "60 round 1", "60 until 120", "89 not until 120"}, err: context.DeadlineExceeded},
		{
			name: "a round that is not due is the first one",
			do: func(t *testing.T, f *foreground) {
				_ = f.runs(t, 10*time.Second)
				f.notes = nil
			},
			want: []string{"10 round 1", "10 until 70", "70 not until 70", "70 round 2", "70 until 130", "99 not until 130"}, err: context.DeadlineExceeded,
		},
		{
			name: "a pause between rounds",
			then: func(t *testing.T, f *foreground) {
				f.order(t, session.OrderPause)
				time.Sleep(46 * time.Second) // between two looks of the loop, one at each even second
				f.order(t, session.OrderResume)
			},
			want: []string{"0 round 0", "0 until 60", "30 not until 60", "30 paused", "76 not paused", "76 round 1", "76 until 136", "89 not until 136"}, err: context.DeadlineExceeded,
		},
		{
			name: "a pause in a round",
			do: func(t *testing.T, f *foreground) {
				n := 0
				f.fails = func(int) (bool, error) {
					if n++; n > 1 {
						return true, nil
					}
					f.order(t, session.OrderPause)
					return false, &session.PausedError{Intent: session.Intent{State: session.Pause}}
				}
			},
			then: func(t *testing.T, f *foreground) { f.order(t, session.OrderResume) },
			want: []string{"0 round 0", "0 paused", "30 not paused", "30 round 0", "30 until 60", "60 not until 60", "60 round 1", "60 until 120", "89 not until 120"}, err: context.DeadlineExceeded,
		},
		{
			name: "a cut-over that returns",
			then: func(t *testing.T, f *foreground) {
				if _, err := session.CutoversOf(f.root()).Order(t.Context(), session.CutoverOptions{MaxOutage: 1000}, "ann"); err != nil {
					t.Error(err)
				}
			},
			want: []string{"0 round 0", "0 until 60", "30 not until 60", "30 cut-over RETURNED", "30 round 1", "30 until 90", "89 not until 90"}, err: context.DeadlineExceeded,
		},
		{
			name: "the following was finished",
			then: func(t *testing.T, f *foreground) {
				if err := f.chain(f.store).Finish(t.Context()); err != nil {
					t.Error(err)
				}
			},
			want: []string{"0 round 0", "0 until 60", "30 not until 60"}, err: session.ErrFinished,
		},
		{
			name: "a failed round",
			do: func(_ *testing.T, f *foreground) {
				f.fails = func(int) (bool, error) { return false, fault.ErrCorrupt }
			},
			want: []string{"0 round 0"}, err: fault.ErrCorrupt,
		},
		{
			name: "failed parts of a round",
			do:   func(_ *testing.T, f *foreground) { f.fails = func(int) (bool, error) { return true, fault.ErrCorrupt } },
			want: []string{"0 round 0", "0 until 60", "60 not until 60", "60 round 1", "60 until 120", "89 not until 120"}, err: context.DeadlineExceeded,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newForeground(t)
				if c.do != nil {
					c.do(t, f)
				}
				if c.then != nil {
					f.nodes.Go(func() {
						time.Sleep(29 * time.Second)
						c.then(t, f)
					})
				}
				if err := f.runs(t, 89*time.Second); !errors.Is(err, c.err) || !slices.Equal(f.notes, c.want) {
					t.Errorf("%v, %q, want %v, %q", err, f.notes, c.err, c.want)
				}
				f.nodes.Wait()
			})
		})
	}
}

// TestLoop_RepeatsARoundWithoutAnAnswer: a source, a target or a repository that does not answer for hours does not end the following.
func TestLoop_RepeatsARoundWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newForeground(t)
		tries := 0
		f.fails = func(int) (bool, error) {
			if tries++; time.Since(f.start) < 2*time.Hour {
				return false, fmt.Errorf("gave up after 2m0s without success: %w", fault.ErrUnavailable)
			}
			return true, nil
		}
		if err := f.runs(t, 3*time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		all, err := session.RoundsOf(f.root()).Read(t.Context())
		if last, _ := all.Last(); err != nil || last.Number < 50 || tries-last.Number < 20 || tries-last.Number > 40 {
			t.Errorf("round %d after %d tries, %v; at most 5 minutes are between two tries", last.Number, tries, err)
		}
		if len(f.notes) < 2 || f.notes[1] != "0 back-off" || slices.ContainsFunc(f.notes, func(s string) bool { return strings.HasSuffix(s, "paused") }) {
			t.Errorf("%q", f.notes)
		}
	})
}

// TestLoop_RemovesBlocksWhenTheSourceAnswers: a cut-over that returns and cannot remove its blocks is tried again soon, and the following
// continues.
func TestLoop_RemovesBlocksWhenTheSourceAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newForeground(t)
		_ = f.runs(t, 10*time.Second) // a first round
		cutovers := session.CutoversOf(f.root())
		if _, err := cutovers.Order(t.Context(), session.CutoverOptions{MaxOutage: 1000}, "ann"); err != nil {
			t.Fatal(err)
		}
		tries := 0
		f.CutOver = func(ctx context.Context) (bool, error) {
			tries++
			is, _, err := cutovers.Read(ctx)
			if err != nil {
				return false, err
			}
			to := session.CutoverReturning
			if time.Since(f.start) > 20*time.Minute {
				to = session.CutoverReturned
			}
			if is, err = cutovers.Move(ctx, is, func(c *session.Cutover, _ int64) { c.State = to }); err != nil || to == session.CutoverReturned {
				f.note(fmt.Sprint("cut-over ", is.State))
				return false, err
			}
			return false, fmt.Errorf("write blocks of the cut-over stay on the source: %w", fault.ErrUnavailable)
		}
		if err := f.runs(t, 30*time.Minute); !errors.Is(err, context.DeadlineExceeded) || tries < 100 || !slices.ContainsFunc(f.notes, func(s string) bool { return strings.HasSuffix(s, "cut-over RETURNED") }) {
			t.Errorf("%v after %d tries: %q", err, tries, f.notes)
		}
	})
}

// TestLoop_RepeatsAFailedSnapshot, and ends with the failure of another phase.
func TestLoop_RepeatsAFailedSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newForeground(t)
		tries := 0
		f.fails = func(int) (bool, error) {
			if tries++; tries < 5 {
				return false, &phase.PhaseFailed{Phase: phase.PhaseSnapshot, Renewed: true}
			}
			return false, &phase.PhaseFailed{Phase: phase.PhaseMetadata}
		}
		var failed *phase.PhaseFailed
		if err := f.runs(t, time.Hour); !errors.As(err, &failed) || failed.Phase != phase.PhaseMetadata || tries != 5 {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

// TestLoop_CountsAFailedRound unless nothing was tried because of its options.
func TestLoop_CountsAFailedRound(t *testing.T) {
	for reason, failures := range map[error]int{fault.ErrCorrupt: 1, fault.ErrConfig: 0} {
		t.Run(reason.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newForeground(t)
				f.fails = func(int) (bool, error) { return false, reason }
				if err := f.runs(t, time.Minute); !errors.Is(err, reason) {
					t.Error(err)
				}
				if all, err := session.RoundsOf(f.root()).Read(t.Context()); err != nil || all.Failures != failures {
					t.Errorf("%d failures are counted, want %d; %v", all.Failures, failures, err)
				}
			})
		})
	}
}

// driver returns the driver of a node with a round every minute.
func (f *fleetOf) driver(root *cms.Coordinator) *follow.Driver {
	return &follow.Driver{
		Root: root, TTL: f.ttl, Ask: func() time.Duration { return 5 * time.Second },
		Loop: follow.Loop{Clock: f.chain(f.store).Clock, Every: time.Minute, Log: slog.New(slog.DiscardHandler)},
	}
}
