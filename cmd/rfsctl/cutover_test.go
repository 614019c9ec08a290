package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/s3server"
)

// followedIn starts a followed session in a bucket, and returns it with the options that name it.
func followedIn(t *testing.T) (c *cms.Coordinator, at []string) {
	t.Helper()
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "bucket"), 0o755))
	server := s3server.Start(t, root)
	server.Setenv(t)
	objects, err := repo.OpenObjects(t.Context(), "s3://bucket/state", repo.Options{S3: repo.S3Options{Region: server.Region, Endpoint: server.Endpoint, PathStyle: true}})
	must(t, err)
	store, err := s3cms.Open(t.Context(), s3cms.Config{Bucket: objects, Session: "s"})
	must(t, err)
	c = cms.New(cms.Config{Store: store, Creator: "test"})
	_, err = session.IdentityOf(c).Init(t.Context(), session.Meta{Settings: map[string]string{"snapshot": "a"}})
	must(t, err)
	_, err = session.RoundsOf(c).Start(t.Context(), session.Round{Snapshot: "a"})
	must(t, err)
	return c, []string{"--coordinator-bucket", "s3://bucket/state", "--coordinator-s3-region", server.Region, "--coordinator-s3-endpoint", server.Endpoint, "--coordinator-s3-path-style", "--session-name", "s"}
}

// TestCutover_AnswersInEachStep gives the orders of rfsctl at each step of a cut-over: each answer names what to do next.
func TestCutover_AnswersInEachStep(t *testing.T) {
	for _, step := range []struct {
		state    session.CutoverState
		blocks   bool
		cutover  string
		abort    int // exit code
		aborted  string
		cleanup  string
		forced   string // words of the warning
		noReturn bool   // nothing offers --abort
	}{
		{session.CutoverOrdered, false, "is ORDERED already; this order was not stored: rfsctl status shows how far it is, and rfsctl cutover --abort withdraws it", 0, "cut-over returned", "or return from it (rfsctl cutover --abort)", "", false},
		{session.CutoverBlocked, true, "is BLOCKED already", 4, "cut-over: returning (aborted by", "or return from it (rfsctl cutover --abort)", "remove index.blocks.write on the source from shop", false},
		{session.CutoverReturning, true, "is RETURNING already", 4, "cut-over: returning", "end it first", "remove index.blocks.write on the source from shop", true},
		{session.CutoverFinishing, true, "is FINISHING already", 1, "too late: everything has arrived", "end it first", "a cut-over is FINISHING", true},
	} {
		t.Run(string(step.state), func(t *testing.T) {
			c, at := followedIn(t)
			is, err := session.CutoversOf(c).Order(t.Context(), session.CutoverOptions{MaxOutage: 1000}, "ann")
			must(t, err)
			_, err = session.CutoversOf(c).Move(t.Context(), is, func(x *session.Cutover, _ int64) {
				if x.State = step.state; step.blocks {
					x.Blocks = []string{"shop"}
				}
			})
			must(t, err)
			_, err = session.PhasesOf(c).Move(t.Context(), session.DocsPhase, "", session.PhaseCompleted, nil)
			must(t, err)
			for _, order := range []struct {
				args  []string
				code  int
				words string
			}{
				{[]string{"cutover", "--no-wait"}, 1, step.cutover},
				{[]string{"cutover", "--no-wait", "--indices", "shop*"}, 1, step.cutover},
				{[]string{"undo", "--yes", "--target-host", "http://127.0.0.1:1"}, 1, step.cleanup},
				{[]string{"cleanup"}, 1, step.cleanup},
				{[]string{"cutover", "--abort", "--no-wait"}, step.abort, step.aborted},
				{[]string{"cleanup", "--force"}, 0, step.forced},
			} {
				code, out, errs := rfsctl(t, append(order.args, at...)...)
				if code != order.code || !strings.Contains(out+errs, order.words) || order.words == "" && strings.Contains(errs, "warning") {
					t.Errorf("%q: exit %d, want %d and %q: %s%s", order.args, code, order.code, order.words, out, errs)
				}
				if step.noReturn && strings.Contains(errs, "--abort") {
					t.Errorf("%q: a cut-over that cannot be aborted: %s", order.args, errs)
				}
			}
		})
	}
}

// TestCutover_IsRefusedWhereItCannotStart: in a session that is paused, or whose objects were removed.
func TestCutover_IsRefusedWhereItCannotStart(t *testing.T) {
	c, at := followedIn(t)
	_, err := session.OrdersOf(c).Issue(t.Context(), session.Order{Kind: session.OrderPause, Who: "ann"})
	must(t, err)
	code, out, errs := rfsctl(t, append([]string{"cutover", "--no-wait"}, at...)...)
	if code != 1 || !strings.Contains(errs, "PAUSE by ann") || !strings.Contains(errs, "rfsctl resume") {
		t.Errorf("paused: exit %d: %s%s", code, out, errs)
	}
	_, err = session.OrdersOf(c).Issue(t.Context(), session.Order{Kind: session.OrderResume, Who: "ann"})
	must(t, err)
	must(t, session.IdentityOf(c).BeginUndo(t.Context()))
	if code, out, errs := rfsctl(t, append([]string{"cutover", "--no-wait"}, at...)...); code != 1 || !strings.Contains(errs, "was removed by `rfsctl undo`") {
		t.Errorf("undone: exit %d: %s%s", code, out, errs)
	}
}

// TestCutover_TellsWhatBecameOfItsOrder: the operator who waits learns of a return in a pause, of another order in place of this one, and
// of records that were removed.
func TestCutover_TellsWhatBecameOfItsOrder(t *testing.T) {
	for _, x := range []struct {
		name  string
		then  func(t *testing.T, c *cms.Coordinator)
		words string
	}{
		{"another order", func(t *testing.T, c *cms.Coordinator) {
			_, err := session.CutoversOf(c).Return(t.Context(), "not now")
			must(t, err)
			is, err := session.CutoversOf(c).Order(t.Context(), session.CutoverOptions{MaxOutage: 1000, Indices: []string{"b"}}, "bob")
			must(t, err)
			_, err = session.CutoversOf(c).Move(t.Context(), is, func(x *session.Cutover, _ int64) { x.State = session.CutoverDone })
			must(t, err)
		}, "this cut-over was withdrawn, and another one was ordered by bob"},
		{"a pause", func(t *testing.T, c *cms.Coordinator) {
			_, err := session.OrdersOf(c).Issue(t.Context(), session.Order{Kind: session.OrderPause, Who: "bob"})
			must(t, err)
			_, err = session.CutoversOf(c).Return(t.Context(), "the operator (bob) wants no work: PAUSE")
			must(t, err)
		}, "the cut-over has returned, and the session is held (PAUSE by bob): rfsctl resume continues the following"},
		{"removed records", func(t *testing.T, c *cms.Coordinator) { must(t, c.Leases().Forget(t.Context(), "cutover")) }, "the records of the session were removed"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, at := followedIn(t)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if code, out, errs := rfsctl(t, append([]string{"cutover", "--indices", "a"}, at...)...); code != 1 || !strings.Contains(errs, x.words) {
					t.Errorf("exit %d: %s%s", code, out, errs)
				}
			}()
			for is := (session.Cutover{}); !is.Open(); time.Sleep(10 * time.Millisecond) {
				var err error
				is, _, err = session.CutoversOf(c).Read(t.Context())
				must(t, err)
			}
			x.then(t, c)
			<-ended
		})
	}
}
