package boltcms_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/cmstest"
)

func open(t *testing.T, path string) *boltcms.Store {
	t.Helper()
	s, err := boltcms.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func coordinator(t *testing.T, s cms.Store) *cms.Coordinator {
	t.Helper()
	c := cms.New(cms.Config{Store: s, Creator: "test"})
	return c
}

func seed(t *testing.T, c *cms.Coordinator, ids ...cms.ItemID) {
	t.Helper()
	ctx := t.Context()
	err := c.SeedOnce(ctx, "h", func(ctx context.Context) error {
		_, err := c.SeedItems(ctx, func(yield func(cms.ItemID) bool) {
			for _, id := range ids {
				if !yield(id) {
					return
				}
			}
		})
		return err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func TestSecondProcessIsToldWhoHasTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "cms.db")
	s := open(t, path)
	defer s.Close()
	_, err := boltcms.Open(path, time.Now) // s is open until the test ends: waiting for it would not end
	if !errors.Is(err, cms.ErrLocked) || !errors.Is(err, fault.ErrConfig) {
		t.Fatalf("got %v", err)
	}
	if want := fmt.Sprintf("%s is open in process %d: the coordination file is in use, wait until that process has ended", path, os.Getpid()); fault.Text(err) != want {
		t.Errorf("%q, want %q", fault.Text(err), want)
	}
	if !strings.Contains(err.Error(), path) {
		t.Errorf("message does not name file and process: %v", err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

func TestOpeningTheFileFreesTheLeasesOfADeadOwner(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "cms.db")
	s := open(t, path)
	c := coordinator(t, s)
	id := cms.ItemID{Index: "a", Shard: 0}
	seed(t, c, id)
	l, err := c.AcquireNext(ctx, "h1", nil)
	if err != nil {
		t.Fatal(err)
	}
	counts := cms.Counts{Ordinals: 10, Live: 9, Indexed: 8, Failed: 1, Bytes: 100}
	if err := l.Progress(ctx, 10, cms.Work{Counts: counts, Checks: []byte(`{"crc":1}`)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // the owner dies with the lease in hand
		t.Fatal(err)
	}

	s = open(t, path)
	defer s.Close()
	c = coordinator(t, s)
	l, err = c.AcquireNext(ctx, "h2", nil)
	if err != nil {
		t.Fatalf("the lease of the dead owner was not freed: %v", err)
	}
	if l.Start() != 10 || l.Length != timing.DefaultInitialLease {
		t.Errorf("start %d, lease %s", l.Start(), l.Length)
	}
	more := cms.Counts{Ordinals: 5, Live: 5, Indexed: 5, Bytes: 50}
	if err := l.Complete(ctx, cms.Work{Counts: more, Checks: []byte(`{"crc":2}`)}); err != nil {
		t.Fatal(err)
	}
	sum, err := cmstest.Sum(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Total.Counts != counts.Add(more) {
		t.Errorf("counts %+v", sum.Total.Counts)
	}
	it, err := c.Item(ctx, id)
	if err != nil || it.Checks != `[{"crc":1},{"crc":2}]` || it.Watermark != 15 {
		t.Errorf("item %+v, %v", it, err)
	}
	if _, done, err := session.AuditsOf(c).Finish(ctx); err != nil || !done {
		t.Errorf("done %v, %v", done, err)
	}
	if _, err := c.AcquireNext(ctx, "h3", nil); !errors.Is(err, cms.ErrAllDone) {
		t.Errorf("got %v", err)
	}
}

func TestHandoffLeavesAWholeChain(t *testing.T) {
	ctx := t.Context()
	s := open(t, filepath.Join(t.TempDir(), "cms.db"))
	defer s.Close()
	c := coordinator(t, s)
	seed(t, c, cms.ItemID{Index: "a", Shard: 3})
	for i, step := range []int64{5, 11, 20} {
		l, err := c.AcquireNext(ctx, "h", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Handoff(ctx, l.Start(), cms.Work{}); !errors.Is(err, cms.ErrNoProgress) {
			t.Fatalf("self successor: %v", err)
		}
		w := cms.Work{Counts: cms.Counts{Ordinals: step - l.Start()}}
		if i == 2 {
			err = l.Complete(ctx, w)
		} else {
			err = l.Handoff(ctx, step, w)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rep, done, err := session.AuditsOf(c).Finish(ctx)
	if err != nil || !done || rep.Items != 3 || rep.Chains != 1 || len(rep.Stray) != 0 {
		t.Errorf("%+v done=%v %v", rep, done, err)
	}
	sum, err := cmstest.Sum(ctx, c)
	if err != nil || sum.Total.Counts.Ordinals != 20 {
		t.Errorf("%+v, %v", sum.Total, err)
	}
}

func TestClockNeverRunsBackwards(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	s, err := boltcms.Open(filepath.Join(t.TempDir(), "cms.db"), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Create(t.Context(), []cms.Item{cms.NewItem("YQ__0__0", "t", 0)}); err != nil {
		t.Fatal(err)
	}
	high := now
	now = now.Add(-time.Hour)
	if got, _, err := s.Now(t.Context()); err != nil || got.Before(high) {
		t.Errorf("now %v, %v", got, err)
	}
	it, v, err := s.Apply(t.Context(), "YQ__0__0", cms.Acquire{Holder: "h", InitialMs: 60_000, MaxMs: 60_000})
	if err != nil || v != cms.Applied || it.AcquiredAt < high.UnixMilli() {
		t.Errorf("acquired at %d: %v %v", it.AcquiredAt, v, err)
	}
}

func TestForeignFileIsNotTouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cms.db")
	junk := []byte(strings.Repeat("not a database ", 1000))
	if err := os.WriteFile(path, junk, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := boltcms.Open(path, time.Now); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(junk) {
		t.Errorf("file changed: %v", err)
	}
}

// TestATornFileIsRefusedOrWhole truncates the file at many places, as a power loss may: it opens with a complete state, or is refused; it
// never opens with half an item.
func TestATornFileIsRefusedOrWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cms.db")
	s := open(t, path)
	c := coordinator(t, s)
	seed(t, c, cms.ItemID{Index: "a"}, cms.ItemID{Index: "b"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	opened, refused := 0, 0
	for cut := len(whole); cut > 0; cut -= 1024 {
		torn := filepath.Join(dir, "torn.db")
		if err := os.WriteFile(torn, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := boltcms.Open(torn, time.Now)
		if err != nil {
			refused++
			continue
		}
		opened++
		n := 0
		for _, err := range s.Scan(t.Context()) {
			if err != nil {
				t.Errorf("cut at %d: %v", cut, err)
				break
			}
			n++
		}
		if n != 3 {
			t.Errorf("cut at %d: %d items", cut, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d opened, %d refused", opened, refused)
	if opened == 0 || refused == 0 {
		t.Error("nothing was tested")
	}
}

// TestADamagedFileNeverKillsTheProcess flips bytes throughout the file.
func TestADamagedFileNeverKillsTheProcess(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cms.db")
	s := open(t, path)
	c := coordinator(t, s)
	seed(t, c, cms.ItemID{Index: "a"}, cms.ItemID{Index: "b"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused, errs := 0, 0
	for at := 0; at < len(whole); at += 31 {
		if whole[at] == 0 && at%4096 > 256 {
			continue // empty space
		}
		bad := append([]byte(nil), whole...)
		bad[at] ^= 0xff
		torn := filepath.Join(dir, "bad.db")
		if err := os.WriteFile(torn, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := boltcms.Open(torn, time.Now)
		if err != nil {
			refused++
			continue
		}
		for _, err := range s.Scan(t.Context()) {
			if err != nil {
				errs++
				break
			}
		}
		if _, err := s.Candidates(t.Context(), 0, 8); err != nil {
			errs++
		}
		if err := s.Close(); err != nil {
			errs++
		}
	}
	t.Logf("%d of the files refused, %d errors", refused, errs)
	if refused == 0 {
		t.Error("damage is not noticed")
	}
}

// TestAFutureClockIsForgotten: the clock was an hour ahead, when the file was written or while it was open.
func TestAFutureClockIsForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	right := time.UnixMilli(1_700_000_000_000)
	at := right.Add(time.Hour)
	now := func() time.Time { return at }
	s, err := boltcms.Open(path, now)
	if err != nil {
		t.Fatal(err)
	}
	id := cmstest.ID("a", 0, 0)
	if _, err := s.Create(t.Context(), []cms.Item{cms.NewItem(id, "c", 0)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	at = right
	if s, err = boltcms.Open(path, now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if is, _, err := s.Now(t.Context()); err != nil || !is.Equal(right) {
		t.Errorf("opened at %v: %v, %v", right, is, err)
	}
	at = right.Add(time.Hour)
	short := cms.Acquire{Holder: "one", InitialMs: 1000, MaxMs: 1000}
	if _, v, err := s.Apply(t.Context(), id, short); err != nil || v != cms.Applied {
		t.Fatal(v, err)
	}
	at = right // corrected
	if _, _, err := s.Now(t.Context()); err != nil {
		t.Fatal(err)
	}
	at = right.Add(5 * time.Second)
	short.Holder = "two"
	if _, v, err := s.Apply(t.Context(), id, short); err != nil || v != cms.Applied {
		t.Errorf("a lease of 1 s still runs after 5 s: %v %v", v, err)
	}
}

// TestStore_MarkIsOfTheFile: a file keeps its mark, and a replacement has another.
func TestStore_MarkIsOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	mark := func() string {
		t.Helper()
		s, err := boltcms.Open(path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		mark, err := s.Incarnation(t.Context())
		if err = errors.Join(err, s.Close()); err != nil || mark == "" {
			t.Fatalf("%q %v", mark, err)
		}
		return mark
	}
	first := mark()
	if again := mark(); again != first {
		t.Errorf("opened again: %q, not %q", again, first)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if mark() == first {
		t.Error("another file has the same mark")
	}
}
