package compare_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// TestRun_StateOfOneProcess checks that a comparison without a session keeps its state until it is over, and none that is damaged.
func TestRun_StateOfOneProcess(t *testing.T) {
	r, _ := comparing(t, holding(nil))
	dir, err := r.StateDir()
	if err != nil {
		t.Fatal(err)
	}
	kept := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	source := sending("1", "2")
	if _, err := r.Compare(brokenOff(t, &source), "", source); !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not broken off: %v", err)
	}
	if len(kept()) != 1 {
		t.Errorf("after a failure %q are kept", kept())
	}
	source = sending("1", "2")
	for _, name := range kept() { // a crash of the machine
		if err := os.WriteFile(name, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := r.Compare(t.Context(), "", source); err != nil || report.State != verify.Equal {
		t.Fatalf("%+v, %v", report, err)
	}
	if left := kept(); len(left) != 0 {
		t.Errorf("after the end %q are left", left)
	}
	source.Identity = "" // it shares its state with nobody
	if report, err := r.Compare(t.Context(), "", source); err != nil || report.State != verify.Equal {
		t.Errorf("%+v, %v", report, err)
	}
	if left := kept(); len(left) != 1 || filepath.Base(left[0]) != "temporary.db" {
		t.Errorf("%q are left", left)
	}
}

// sharing lets a comparison use the state of a session, which it returns.
func sharing(t *testing.T, r *compare.Run) *cms.Coordinator {
	t.Helper()
	store := boltstore.Open(t)
	state := cms.New(cms.Config{Store: store, Creator: "test"})
	r.State = func(context.Context, *target.Client) (*cms.Coordinator, func() error, error) {
		return state, func() error { return nil }, nil
	}
	return state
}

// brokenOff returns a context that ends when a source is read.
func brokenOff(t *testing.T, source *compare.Source) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	groups := source.Groups
	source.Groups = func(ctx context.Context, c *target.Client, v target.Version) ([]verify.Group, error) {
		all, err := groups(ctx, c, v)
		all[0].Units[0].Read = func(ctx context.Context, _ int64, _ func(*verify.Document) error) error {
			cancel()
			return ctx.Err()
		}
		return all, err
	}
	return ctx
}

// TestRun_StateThatAnotherProcessHolds checks that a comparison which cannot have the file of its state uses one of its own.
func TestRun_StateThatAnotherProcessHolds(t *testing.T) {
	r, _ := comparing(t, holding(nil))
	dir, err := r.StateDir()
	if err != nil {
		t.Fatal(err)
	}
	source := sending("1", "2")
	if _, err := r.Compare(brokenOff(t, &source), "", source); !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not broken off: %v", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	other, err := boltcms.Open(names[0], time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close() //nolint:errcheck // of a test
	if report, err := r.Compare(t.Context(), "", sending("1", "2")); err != nil || report.State != verify.Equal {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := os.Stat(names[0]); err != nil {
		t.Errorf("the state of the other process: %v", err)
	}
}

// TestRun_ClaimsOfProcesses checks that a process names itself in the directory of its user while it has leases in the state of a
// session, and that it waits for another process that does so.
func TestRun_ClaimsOfProcesses(t *testing.T) {
	r, _ := comparing(t, holding(numbered))
	state := sharing(t, r)
	dir, err := r.StateDir()
	if err != nil {
		t.Fatal(err)
	}
	owners := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "verify-*.owner"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	source := sending("1", "2")
	if _, err := r.Compare(brokenOff(t, &source), "", source); !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not broken off: %v", err)
	}
	names := owners()
	if len(names) != 1 {
		t.Fatalf("after a failure %q are kept", names)
	}
	live, err := owner.Take(names[0], "another")
	if err != nil {
		t.Fatal(err)
	}
	if dead := live.Dead(); len(dead) != 1 {
		t.Errorf("%q have ended", dead)
	}
	if err := live.Release(); err != nil {
		t.Fatal(err)
	}
	if report, err := r.Compare(t.Context(), "", sending("1", "2")); err != nil || report.State != verify.Equal {
		t.Errorf("%+v, %v", report, err)
	}
	if left := owners(); len(left) != 0 {
		t.Errorf("after the end %q are left", left)
	}
	if live, err = owner.Take(names[0], "another"); err != nil {
		t.Fatal(err)
	}
	defer live.Release() //nolint:errcheck // of a test
	if report, err := r.Compare(t.Context(), "", sending("1", "2")); err != nil || report.State != verify.Equal {
		t.Errorf("beside a process that lives: %+v, %v", report, err)
	}
	if left := owners(); len(left) != 1 {
		t.Errorf("the claim of a process that lives: %q", left)
	}
	if _, err := session.IdentityOf(state).Read(t.Context()); !errors.Is(err, cms.ErrNotFound) {
		t.Errorf("a comparison began the session: %v", err)
	}
}

// TestRun_ComparesByItself checks that a process compares alone beside another comparison of the session.
func TestRun_ComparesByItself(t *testing.T) {
	r, log := comparing(t, holding(numbered))
	sharing(t, r)
	first, other := sending("1", "2"), sending("1", "2")
	other.Identity = "other settings"
	ctx := brokenOff(t, &first)
	groups := first.Groups
	first.Groups = func(c context.Context, client *target.Client, v target.Version) ([]verify.Group, error) {
		all, err := groups(c, client, v)
		breaks := all[0].Units[0].Read
		all[0].Units[0].Read = func(c context.Context, from int64, each func(*verify.Document) error) error {
			if report, err := r.Compare(t.Context(), "", other); err != nil || report.State != verify.Equal {
				t.Errorf("%+v, %v", report, err)
			}
			return breaks(c, from, each)
		}
		return all, err
	}
	if _, err := r.Compare(ctx, "", first); !errors.Is(err, context.Canceled) {
		t.Errorf("it was not broken off: %v", err)
	}
	if !strings.Contains(log.String(), "another comparison is in progress") {
		t.Errorf("the log does not state why it compares by itself: %s", log)
	}
}

// TestRun_UsesTheStateOfASession checks that the documents and aliases which the session recorded as refused are known to each of its
// comparisons, and that each shows its progress until it ends.
func TestRun_UsesTheStateOfASession(t *testing.T) {
	r, _ := comparing(t, holding(numbered))
	state := sharing(t, r)
	if err := session.RefusalsOf(state).Keep(t.Context(), []session.Refused{{Index: "a", ID: "3"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := session.EntriesOf(state).Create(t.Context(), session.IndexEntry{Name: "a", Body: []byte(`{"refused_aliases":[{"index":"a","alias":"b","reason":"no"}]}`)}); err != nil {
		t.Fatal(err)
	}
	shown := 0
	r.Show = func(*verify.Verifier) func() {
		shown++
		return func() { shown += 100 }
	}
	source := sending("1", "2", "3")
	source.Marks = func(_ context.Context, _ *target.Client, s *cms.Coordinator) (rollback.Marks, error) {
		if s != state {
			t.Error("the marks are those of another session")
		}
		return rollback.Marks{}, nil
	}
	for range 2 {
		report, err := r.Compare(t.Context(), "", source)
		if err != nil || report.State != verify.FailedDocuments {
			t.Fatalf("%+v, %v", report, err)
		}
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "the alias b of a") {
			t.Errorf("%s", got)
		}
	}
	if shown != 202 {
		t.Errorf("the progress was shown and ended: %d", shown)
	}
}

// TestRun_NamesThePlacesOfFailedDocuments: a document that failed is missing where its file is not read.
func TestRun_NamesThePlacesOfFailedDocuments(t *testing.T) {
	for _, c := range []struct {
		name  string
		read  string // the directory of failed documents that the comparison reads
		sent  []string
		warns bool
	}{
		{"another directory", "/other", []string{"1", "2", "3"}, true},
		{"their directory", "/failed", []string{"1", "2", "3"}, false},
		{"nothing is missing", "/other", []string{"1", "2"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := comparing(t, holding(numbered))
			state := sharing(t, r)
			if err := session.PlacesOf(state).Keep(t.Context(), "p", session.FailedAt{Host: "vm", Place: "/failed", Sums: []session.FailedSum{{Index: "a", Count: 1}}}); err != nil {
				t.Fatal(err)
			}
			r.Place = session.FailedAt{Host: "vm", Place: c.read}
			source := sending(c.sent...)
			source.Marks = func(context.Context, *target.Client, *cms.Coordinator) (rollback.Marks, error) {
				return rollback.Marks{}, nil
			}
			report, err := r.Compare(t.Context(), "", source)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(report.Warnings); strings.Contains(got, "vm:/failed holds") != c.warns {
				t.Errorf("%s", got)
			}
		})
	}
}
