package s3cms_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
	"github.com/rfsd/rfsd/testing/cmstest"
	"github.com/rfsd/rfsd/testing/sim"
)

func TestAServerThatIgnoresConditionsIsRefused(t *testing.T) {
	b := newMemory()
	b.ignores = true
	for range 2 { // also when the object of the session is there
		_, err := s3cms.Open(t.Context(), s3cms.Config{Bucket: b})
		if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "ignores the conditions") || !strings.Contains(err.Error(), "--coordinator-host") {
			t.Errorf("%v", err)
		}
	}
}

func TestASessionIsJoinedWithoutAWrite(t *testing.T) {
	b := newMemory()
	if _, err := s3cms.Join(t.Context(), s3cms.Config{Bucket: b, Session: "one"}); !errors.Is(err, s3cms.ErrNoSession) {
		t.Errorf("nothing was started: %v", err)
	}
	begun := open(t, b, "one")
	create(t, begun, cmstest.ID("a", 0, 0))
	writes := b.count["put"]
	s, err := s3cms.Join(t.Context(), s3cms.Config{Bucket: b, Session: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), cmstest.ID("a", 0, 0)); err != nil || b.count["put"] != writes {
		t.Errorf("%v, %d writes", err, b.count["put"]-writes)
	}
	if _, err := open(t, b, "two").Get(t.Context(), cmstest.ID("a", 0, 0)); !errors.Is(err, cms.ErrNotFound) {
		t.Errorf("sessions share items: %v", err)
	}
	for _, name := range []string{"A", "a/b", "..", strings.Repeat("a", 65)} {
		if _, err := s3cms.Open(t.Context(), s3cms.Config{Bucket: b, Session: name}); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("session %q: %v", name, err)
		}
	}
}

// TestStore_MarkIsOfTheSession: all processes of a session have one mark, and a session of the same name in another bucket has another.
func TestStore_MarkIsOfTheSession(t *testing.T) {
	mark := func(b *memory) string {
		t.Helper()
		mark, err := open(t, b, "one").Incarnation(t.Context())
		if err != nil || mark == "" {
			t.Fatalf("%q %v", mark, err)
		}
		return mark
	}
	b := newMemory()
	first := mark(b)
	if again := mark(b); again != first {
		t.Errorf("joined: %q, not %q", again, first)
	}
	if mark(newMemory()) == first {
		t.Error("another session has the same mark")
	}
}

func create(t *testing.T, s cms.Store, ids ...string) {
	t.Helper()
	items := make([]cms.Item, len(ids))
	for i, id := range ids {
		items[i] = cms.NewItem(id, "test", 0)
	}
	if n, err := s.Create(t.Context(), items); err != nil || n != len(ids) {
		t.Fatalf("created %d, %v", n, err)
	}
}

// TestNamesOfEveryLengthAreApart: object names are short enough for directories, and unique to an id.
func TestNamesOfEveryLengthAreApart(t *testing.T) {
	b := newMemory()
	s := open(t, b, "")
	long := strings.Repeat("ü", 120)
	ids := []string{cmstest.ID(long, 0, 0), cmstest.ID(long, 1, 0), cmstest.ID(long, 1, 7), cmstest.ID("a", 0, 0), cmstest.ID("A", 0, 0)}
	create(t, s, ids...)
	for _, id := range ids {
		if it, err := s.Get(t.Context(), id); err != nil || it.ID != id {
			t.Errorf("%s: %v %v", id, it.ID, err)
		}
	}
	for _, id := range []string{"x:" + long, "x:" + long + "2", "x:a/../b", "x:..", "x:"} {
		if _, err := s.Put(t.Context(), cms.Record{ID: id, Kind: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, err := range s.List(t.Context(), "x") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 5 {
		t.Errorf("%d records of 5", n)
	}
	for name := range b.objects {
		if !fs.ValidPath(name) {
			t.Errorf("name %q", name)
		}
		for part := range strings.SplitSeq(name, "/") {
			if len(part) > 200 {
				t.Errorf("a part of %d bytes: %s", len(part), name)
			}
		}
	}
}

// TestObjectsOfOthersAreReported: an object of another program below the prefix is reported as damage, by its name.
func TestObjectsOfOthersAreReported(t *testing.T) {
	for _, c := range []struct{ from, body string }{
		{"items", "junk"}, {"items", `{"id":"other__0__0"}`}, {"records", "{}"}, {"records", `[]`},
	} {
		b := newMemory()
		s := open(t, b, "")
		create(t, s, cmstest.ID("a", 0, 0))
		if _, err := s.Put(t.Context(), cms.Record{ID: "k:a", Kind: "k"}); err != nil {
			t.Fatal(err)
		}
		for name := range b.objects {
			if strings.Contains(name, c.from) {
				b.objects[name], b.versions[name] = c.body, 1000
			}
		}
		var err error
		if c.from == "items" {
			_, err = s.Open(t.Context())
		} else {
			_, err = s.Record(t.Context(), "k:a")
		}
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "k:a") && !strings.Contains(err.Error(), c.from+"/") {
			t.Errorf("%q in %s: %v", c.body, c.from, err)
		}
	}
}

// TestAnAcquisitionReadsLittle: its cost grows neither with the completed work nor with the number of items.
func TestAnAcquisitionReadsLittle(t *testing.T) {
	b := newMemory()
	b.page = 1000
	s := open(t, b, "")
	var ids []string
	for i := range 5000 {
		ids = append(ids, cmstest.ID("a", i, 0))
	}
	create(t, s, ids...)
	other := open(t, b, "") // another process, which knows nothing yet
	clear(b.count)
	got, err := other.Candidates(t.Context(), 0, 32)
	if err != nil || len(got) != 16 {
		t.Fatalf("%d candidates, %v", len(got), err)
	}
	if b.count["list"] > 2 || b.count["get"] > 16 {
		t.Errorf("the first search of 5,000 items: %v", b.count)
	}
	clear(b.count)
	if _, v, err := other.Apply(t.Context(), got[0].ID, cms.Acquire{Holder: "h", InitialMs: 60_000, MaxMs: 60_000}); err != nil || v != cms.Applied || b.count["get"] != 0 || b.count["put"] != 1 {
		t.Errorf("%v %v: %v", v, err, b.count)
	}
	if _, err := other.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	clear(b.count)
	if o, err := other.Open(t.Context()); err != nil || o.Items != 5000 || b.count["get"] != 0 || b.count["list"] > 6 {
		t.Errorf("%+v %v: %v", o, err, b.count)
	}
}

// TestAKnownItemIsReadAgainBeforeItIsRefused: another process may have released it since.
func TestAKnownItemIsReadAgainBeforeItIsRefused(t *testing.T) {
	b := newMemory()
	one, two := open(t, b, ""), open(t, b, "")
	id := cmstest.ID("a", 0, 0)
	create(t, one, id)
	acquire := func(s cms.Store, holder string) cms.Result {
		_, v, err := s.Apply(t.Context(), id, cms.Acquire{Holder: holder, InitialMs: 600_000, MaxMs: 600_000})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := acquire(one, "h1"); v != cms.Applied {
		t.Fatal(v)
	}
	if v := acquire(two, "h2"); v != cms.Held {
		t.Fatal(v)
	}
	if _, v, err := one.Apply(t.Context(), id, cms.Release{Holder: "h1"}); err != nil || v != cms.Applied {
		t.Fatal(v, err)
	}
	if v := acquire(two, "h2"); v != cms.Applied {
		t.Errorf("released, and %v by what was known before", v)
	}
	if _, v, err := one.Apply(t.Context(), id, cms.Progress{Holder: "h1", Watermark: 5}); err != nil || v != cms.Lost {
		t.Errorf("%v %v", v, err)
	}
}

// TestTheResolutionOfTheClockIsInEveryMargin: two processes read the same second of the server's clock at its start and at its end. A lease
// is not taken over while its holder may still work.
func TestTheResolutionOfTheClockIsInEveryMargin(t *testing.T) {
	b := newMemory()
	at := time.UnixMilli(1_700_000_000_000)
	b.now = func() time.Time { return at }
	store := func() *s3cms.Store {
		s, err := s3cms.Open(t.Context(), s3cms.Config{Bucket: b, Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		if _, maxErr, err := s.Now(t.Context()); err != nil || maxErr < time.Second {
			t.Errorf("error of the clock %v, %v", maxErr, err)
		}
		return s
	}
	at = at.Add(999 * time.Millisecond)
	holder := store() // its clock is half a second behind
	at = at.Add(time.Millisecond)
	thief := store() // its clock is half a second ahead
	id := cmstest.ID("a", 0, 0)
	create(t, holder, id)
	short := cms.Acquire{Holder: "one", InitialMs: 2000, MaxMs: 2000}
	if _, v, err := holder.Apply(t.Context(), id, short); err != nil || v != cms.Applied {
		t.Fatal(v, err)
	}
	begun := at
	short.Holder = "two"
	for v := cms.Held; v != cms.Applied; at = at.Add(50 * time.Millisecond) {
		candidates, err := thief.Candidates(t.Context(), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, v, err = thief.Apply(t.Context(), id, short); err != nil {
			t.Fatal(err)
		}
		switch since := at.Sub(begun); {
		case since < 2*time.Second && (v == cms.Applied || len(candidates) > 0):
			t.Fatalf("a lease of 2 s was taken over after %v", since)
		case since > 7*time.Second:
			t.Fatalf("a lease of 2 s still runs after %v: %v", since, v)
		}
	}
}

// racing checks the condition before it writes, like a server whose conditions are not atomic.
type racing struct{ *memory }

func (r racing) Put(ctx context.Context, name string, body []byte, version string) (string, error) {
	_, is, err := r.Get(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if is != version {
		return "", fs.ErrExist
	}
	runtime.Gosched()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.objects[name], r.versions[name] = string(body), r.last
	return fmt.Sprint(r.last), nil
}

// TestConditionsThatAreNotAtomicGiveAnItemToTwo shows why the conditions have to be atomic: with a server that checks before it writes, two
// processes can lease the same item. Open cannot notice that.
func TestConditionsThatAreNotAtomicGiveAnItemToTwo(t *testing.T) {
	for _, c := range []struct {
		name   string
		bucket func() s3cms.Bucket
		twice  bool
	}{
		{"atomic", func() s3cms.Bucket { return newMemory() }, false},
		{"not atomic", func() s3cms.Bucket { return racing{newMemory()} }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for round := range 2000 {
				b := c.bucket()
				id := cmstest.ID("a", 0, 0)
				create(t, open(t, b, ""), id)
				var mu sync.Mutex
				var wg sync.WaitGroup
				won := 0
				for i := range 8 {
					s := open(t, b, "")
					wg.Go(func() {
						_, v, err := s.Apply(t.Context(), id, cms.Acquire{Holder: fmt.Sprint(i), InitialMs: 600_000, MaxMs: 600_000})
						if err == nil && v == cms.Applied {
							mu.Lock()
							won++
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				switch {
				case won == 0 || won > 1 && !c.twice:
					t.Fatalf("%d processes lease the item", won)
				case won > 1:
					t.Logf("round %d: %d processes lease the item", round, won)
					return
				case !c.twice && round == 50:
					return
				}
			}
			t.Error("no item was leased twice")
		})
	}
}

// TestTheObjectsAreARegisterForManyClients: the clients' results are linearizable for an item with one holder at a time.
func TestTheObjectsAreARegisterForManyClients(t *testing.T) {
	b := newMemory()
	n, fits, err := sim.Hammer(t.Context(), open(t, b, ""), 32, 40, 12, 1)
	if err != nil || !fits {
		t.Errorf("%d operations: fits %v, %v", n, fits, err)
	}
}

// TestStore_EndsWithTheSessionThatWasDeleted: a deleted session is never mistaken for a new or a complete one, and nothing is written in
// its place.
func TestStore_EndsWithTheSessionThatWasDeleted(t *testing.T) {
	id := cmstest.ID("a", 0, 0)
	deletions := map[string]func(t *testing.T, b *memory){
		"all objects": func(_ *testing.T, b *memory) { clear(b.objects) },
		"the bucket": func(_ *testing.T, b *memory) {
			b.before = func(method, _ string) error {
				if method == "date" { // HEAD has no body that could name the bucket
					return fs.ErrNotExist
				}
				return fault.ErrNoBucket
			}
		},
		"all objects, and another session started": func(t *testing.T, b *memory) {
			clear(b.objects)
			open(t, b, "one")
		},
	}
	operations := map[string]func(ctx context.Context, s *s3cms.Store) error{
		"Get": func(ctx context.Context, s *s3cms.Store) error { _, err := s.Get(ctx, id); return err },
		"Apply": func(ctx context.Context, s *s3cms.Store) error {
			_, _, err := s.Apply(ctx, id, cms.Acquire{Holder: "h", InitialMs: 60_000, MaxMs: 60_000})
			return err
		},
		"Create": func(ctx context.Context, s *s3cms.Store) error {
			_, err := s.Create(ctx, []cms.Item{cms.NewItem(id, "test", 0)})
			return err
		},
		"Candidates": func(ctx context.Context, s *s3cms.Store) error { _, err := s.Candidates(ctx, 0, 1); return err },
		"Open":       func(ctx context.Context, s *s3cms.Store) error { _, err := s.Open(ctx); return err },
		"Record":     func(ctx context.Context, s *s3cms.Store) error { _, err := s.Record(ctx, "r"); return err },
		"Put": func(ctx context.Context, s *s3cms.Store) error {
			_, err := s.Put(ctx, cms.Record{ID: "r", Kind: "k"})
			return err
		},
		"Incarnation": func(ctx context.Context, s *s3cms.Store) error { _, err := s.Incarnation(ctx); return err },
	}
	for deletion, remove := range deletions {
		for operation, do := range operations {
			t.Run(deletion+"/"+operation, func(t *testing.T) {
				b, later := newMemory(), time.Duration(0)
				s, err := s3cms.Open(t.Context(), s3cms.Config{Bucket: b, Session: "one", Now: func() time.Time { return time.Now().Add(later) }})
				if err != nil {
					t.Fatal(err)
				}
				create(t, s, id)
				remove(t, b)
				if operation == "Create" || operation == "Put" {
					later = 2 * time.Second // what is made within a second is found to be gone by the next read
				}
				objects := len(b.objects)
				err = do(t.Context(), s)
				if !errors.Is(err, cms.ErrStoreGone) || !errors.Is(err, fault.ErrConfig) {
					t.Errorf("it returns %v", err)
				}
				if len(b.objects) > objects {
					t.Errorf("it has written %d objects", len(b.objects)-objects)
				}
			})
		}
	}
}
