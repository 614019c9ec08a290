package export

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// exportTo exports two items, one of them twice, and finishes the export.
func exportTo(ctx context.Context, h home) error {
	x, err := h.enter(ctx, "w", None, true)
	if err != nil {
		return err
	}
	for n, index := range []string{"i", "i", "j"} {
		f, err := x.Create(ctx, index, 0, 0, held)
		if err != nil {
			return err
		}
		for _, body := range [][]string{{pair(index, "1") + pair("i_a", "1")}, {pair(index, "1"), pair(index, "2")}, {pair(index, "1"), pair(index, "2")}}[n] {
			if _, err := f.Send(ctx, []byte(body), 1); err != nil {
				return errors.Join(err, f.Abort())
			}
		}
		if err := f.Commit(ctx); err != nil {
			return errors.Join(err, f.Abort())
		}
	}
	return x.Finish(ctx, "")
}

// wantExported compares with what exportTo exports.
func wantExported(t *testing.T, h home) {
	t.Helper()
	wantManifest(t, h, true, map[string]int64{"i/0-0.ndjson": 2, "j/0-0.ndjson": 2})
	wantTree(t, h, map[string]string{"i/0-0.ndjson": pair("i", "1") + pair("i", "2"), "j/0-0.ndjson": pair("j", "1") + pair("j", "2")})
	if left := unpublished(t, h); len(left) > 0 {
		t.Errorf("a finished export has unpublished objects: %v", left)
	}
}

// TestBucket_SurvivesAFaultOfAnyRequest lets each request of an export go wrong in turn, in each way. A request that passes later does not end
// the export. After any other fault the next run completes it, with each document once.
func TestBucket_SurvivesAFaultOfAnyRequest(t *testing.T) {
	whole := newMemory()
	if err := exportTo(t.Context(), bucketHome{whole, 1, quick}); err != nil {
		t.Fatal(err)
	}
	throttled := fmt.Errorf("SlowDown: %w", fault.ErrUnavailable)
	refused := fmt.Errorf("AccessDenied: %w", fault.ErrConfig)
	for _, c := range []struct {
		name   string
		before func(m *memory, n, at int) error // of request n, where request at goes wrong
		after  func(m *memory, n, at int) error
		ends   error // the run; nil: it completes the export
	}{
		{"throttled", func(_ *memory, n, at int) error { return when(n == at, throttled) }, nil, nil},
		{"throttled three times", func(_ *memory, n, at int) error { return when(at <= n && n < at+3, throttled) }, nil, nil},
		{"the response is lost", nil, func(_ *memory, n, at int) error { return when(n == at, throttled) }, nil},
		{"refused", func(_ *memory, n, at int) error { return when(n == at, refused) }, nil, refused},
		{"the store is away", func(_ *memory, n, at int) error { return when(n >= at, throttled) }, nil, throttled},
		{"killed before it", func(_ *memory, n, at int) error { return when(n >= at, errKilled) }, nil, errKilled},
		{"killed after it", func(_ *memory, n, at int) error { return when(n > at, errKilled) }, func(_ *memory, n, at int) error { return when(n >= at, errKilled) }, errKilled},
	} {
		t.Run(c.name, func(t *testing.T) {
			for at, call := range whole.calls {
				m := newMemory()
				if c.before != nil {
					m.before = func(n int, _, _ string) error { return c.before(m, n, at) }
				}
				if c.after != nil {
					m.after = func(n int, _, _ string) error { return c.after(m, n, at) }
				}
				h := bucketHome{m, 1, quick}
				err := exportTo(t.Context(), h)
				if !errors.Is(err, c.ends) || c.ends == nil && err != nil {
					t.Fatalf("request %d, %s: %v, want %v", at, call, err, c.ends)
				}
				m.before, m.after = nil, nil
				if c.ends != nil {
					if at < len(whole.calls)-1 && m.objects[ManifestName] != "" && manifest(t, h).Complete && strings.HasPrefix(call, "put") {
						t.Errorf("request %d, %s: the export is complete", at, call)
					}
					if err := exportTo(t.Context(), h); err != nil {
						t.Fatalf("request %d, %s: the next run: %v", at, call, err)
					}
				}
				if wantExported(t, h); t.Failed() {
					t.Fatalf("request %d, %s", at, call)
				}
			}
		})
	}
}

var errKilled = errors.New("the process was killed")

func when(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// TestBucket_ALateHolderPublishesNothing: a worker stalls within a request about an object, or between its last look at the lease and the write
// that would publish. Its successor exports the item and finishes the export. The late requests then arrive.
func TestBucket_ALateHolderPublishesNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		stalls func(call, name string, puts int) bool // of the request of the late holder
		dies   bool                                   // when its request has arrived
	}{
		{"in the request of its first object", func(_, _ string, puts int) bool { return puts == 1 }, false},
		{"in the request of its second object", func(_, _ string, puts int) bool { return puts == 2 }, false},
		{"before the write that publishes", func(call, name string, puts int) bool {
			return call == "put" && strings.HasPrefix(name, notes) && puts > 0
		}, false},
		{"in the request of an object, and dies", func(_, _ string, puts int) bool { return puts == 2 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory()
			h := bucketHome{m, 1, quick}
			late := try(t, share(t, h, "late"), held, "0")
			stalled, goOn := make(chan struct{}), make(chan struct{})
			puts, done := 0, false
			m.before = func(_ int, call, name string) error {
				if call == "put" && attemptOf(name) != "" {
					puts++
				}
				if !done && c.stalls(call, name, puts) {
					done = true
					close(stalled)
					<-goOn
				}
				return nil
			}
			ended := make(chan error, 1)
			go func() {
				for _, id := range []string{"1", "2"} {
					if _, err := late.Send(context.Background(), []byte(pair("i", id)), 1); err != nil {
						ended <- err
						return
					}
				}
				ended <- late.Commit(context.Background())
			}()
			<-stalled
			next := share(t, h, "next")
			f := try(t, next, held, "right")
			commit(t, f)
			finish(t, next, "")
			if c.dies {
				m.after = func(int, string, string) error { return errKilled }
			}
			close(goOn)
			if err := <-ended; !errors.Is(err, ErrSuperseded) && !errors.Is(err, errKilled) {
				t.Errorf("the late holder: %v", err)
			}
			if !c.dies {
				if err := late.Abort(); err != nil {
					t.Error(err)
				}
				if left := unpublished(t, h); len(left) > 0 {
					t.Errorf("left by the late holder: %v", left)
				}
			}
			m.before, m.after = nil, nil
			wantTree(t, h, map[string]string{sharedFile: pair("i", "right")})
			wantManifest(t, h, true, map[string]int64{sharedFile: 1})
			finish(t, share(t, h, "last"), "")
			wantManifest(t, h, true, map[string]int64{sharedFile: 1})
			if left := unpublished(t, h); len(left) > 0 {
				t.Errorf("left by the next Finish: %v", left)
			}
		})
	}
}

func TestBucket_ObjectsOfOthers(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, h home, name string, b []byte)
		says   string // error of Finish; "": none
	}{
		{"an object is removed", func(t *testing.T, h home, name string, _ []byte) { h.put(t, name, nil) }, "is missing"},
		{"an object is replaced by one of the same size", func(t *testing.T, h home, name string, b []byte) {
			h.put(t, name, slices.Concat([]byte("x"), b[1:]))
		}, "was replaced by another object"},
		{"the record of an item is removed", func(t *testing.T, h home, _ string, _ []byte) { h.put(t, noteName(item{"i", "0-0"}), nil) }, "is in no record of an item"},
		{"the record of an item is removed, and the item exported again", func(t *testing.T, h home, _ string, _ []byte) {
			h.put(t, noteName(item{"i", "0-0"}), nil)
			commit(t, try(t, share(t, h, "w"), held, "1"))
		}, "is in no record of an item"},
		{"an object is restored from a copy", func(t *testing.T, h home, name string, b []byte) { h.put(t, name, b) }, ""},
		{"an object of another program", func(t *testing.T, h home, _ string, _ []byte) { h.put(t, "i/theirs.ndjson", []byte("x")) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := bucketHome{newMemory(), objectSize, quick}
			x := share(t, h, "w")
			commit(t, try(t, x, held, "1"))
			name := only(t, h)
			c.change(t, h, name, h.raw(t)[name])
			err := x.Finish(t.Context(), "")
			switch {
			case c.says == "" && err == nil:
				wantManifest(t, h, true, map[string]int64{sharedFile: 1})
			case c.says == "" || !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name+" "+c.says):
				t.Errorf("%v, want %q", err, c.says)
			case manifest(t, h).Complete:
				t.Error("the export is complete")
			}
		})
	}
}

func TestBucket_NeedsConditionalWrites(t *testing.T) {
	m := newMemory()
	m.ignores = true
	if _, err := OpenBucket(t.Context(), m, None); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "conditions") {
		t.Errorf("%v", err)
	}
	if _, err := OpenBucket(t.Context(), newMemory(), "lz4"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("an unknown compression: %v", err)
	}
}

// TestBucket_ConflictsAreResolved: another writer changes an object between the read and the write of a change.
func TestBucket_ConflictsAreResolved(t *testing.T) {
	for _, c := range []struct {
		name      string
		conflicts int
		ends      error
	}{
		{"once", 1, nil},
		{"again and again", 1000, fault.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory()
			h := bucketHome{m, objectSize, quick}
			x := share(t, h, "w")
			commit(t, try(t, x, held, "1"))
			left := c.conflicts
			m.before = func(_ int, call, name string) error {
				if call != "put" || left == 0 || name != ManifestName && !strings.HasPrefix(name, notes) {
					return nil
				}
				left--
				m.mu.Lock()
				defer m.mu.Unlock()
				if m.last++; m.versions[name] > 0 {
					m.objects[name], m.versions[name] = m.objects[name]+" ", m.last
				}
				return nil
			}
			err := x.Finish(t.Context(), "")
			if !errors.Is(err, c.ends) || c.ends == nil && err != nil {
				t.Errorf("Finish: %v, want %v", err, c.ends)
			}
			left = c.conflicts
			if _, err := x.Create(t.Context(), "i", 0, 0, held); !errors.Is(err, c.ends) || c.ends == nil && err != nil {
				t.Errorf("Create: %v, want %v", err, c.ends)
			}
			if c.ends == nil {
				finish(t, x, "1 shard failed")
				wantManifest(t, h, false, map[string]int64{sharedFile: 1})
			}
		})
	}
}

// TestBucket_BuffersAreBounded: an attempt buffers no more than an object and the last body, in however many indices, and no object is longer.
func TestBucket_BuffersAreBounded(t *testing.T) {
	const size = 4096
	for _, c := range []Compression{None, Gzip, Zstd} {
		m := newMemory()
		h := bucketHome{m, size, quick}
		f := create(t, enter(t, h, "w", c), "i", 0, 0)
		want := map[string]string{}
		for n := range 400 {
			index := fmt.Sprint("i_", n%7)
			body := pair(index, fmt.Sprintf("%x", n*n*n*7919))
			send(t, f, body)
			want[index+"/0-0.ndjson"+f.out.(*objects).bucket.format.extension[len(".ndjson"):]] += body
			if got := f.out.(*objects).buffered(); got >= size {
				t.Fatalf("%s: %d bytes are buffered", c, got)
			}
		}
		commit(t, f)
		wantTree(t, h, want)
		for name, b := range m.objects {
			if attemptOf(name) != "" && len(b) > size+200 {
				t.Errorf("%s has %d bytes", name, len(b))
			}
		}
	}
}

func TestOfAttempt(t *testing.T) {
	for name, want := range map[string]bool{
		"i/0-0.0123456789abcdef-000001.ndjson": true, "i/12-700.0123456789abcdef-1000001.ndjson.zst": true, "0-0.0123456789abcdef-000001.ndjson.gz": true,
		"i/0-0.ndjson": false, "i/0-0.ndjson.gz": false, "i/0-0.0123456789abcdef-1.ndjson": false, "i/x.0123456789abcdef-000001.ndjson": false,
		"i/0-0.0123456789ABCDEF-000001.ndjson": false, "i/0-0.0123456789abcdef-000001.ndjson.lz4": false, "i/0-0.0123456789abcdef-000001.ndjson/x": false,
	} {
		if OfAttempt(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// TestBucket_ProcessesFinishTogether: each process that finds no work left finishes the export.
func TestBucket_ProcessesFinishTogether(t *testing.T) {
	m := newMemory()
	h := bucketHome{m, 1, quick}
	want := map[string]int64{}
	for n := range 20 {
		x := share(t, h, "w")
		f, err := x.Create(t.Context(), "i", n, 0, held)
		if err != nil {
			t.Fatal(err)
		}
		send(t, f, pair("i", fmt.Sprint(n)))
		commit(t, f)
		want[fmt.Sprintf("i/%d-0.ndjson", n)] = 1
	}
	ends := make(chan error)
	for range 8 {
		go func() {
			x, err := h.enter(context.Background(), "w", None, false)
			if err == nil {
				err = x.Finish(context.Background(), "")
			}
			ends <- err
		}()
	}
	for range 8 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	wantManifest(t, h, true, want)
}

// TestBucket_AbortKeepsObjectsThatMayBePublished: the write that publishes succeeds, and its responses are lost.
func TestBucket_AbortKeepsObjectsThatMayBePublished(t *testing.T) {
	for _, c := range []struct {
		name  string
		later bool // another attempt starts before the writer asks again
		ends  error
	}{{"all responses are lost", false, fault.ErrUnavailable}, {"a later attempt starts", true, ErrSuperseded}} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory()
			h := bucketHome{m, objectSize, quick}
			x, other := share(t, h, "w"), share(t, h, "other")
			f := try(t, x, held, "1")
			m.after = func(_ int, call, name string) error {
				if call != "put" || !strings.HasPrefix(name, notes) {
					return nil
				}
				m.after = nil
				if !c.later {
					m.before = func(int, string, string) error { return fault.ErrUnavailable }
				} else if _, err := other.Create(t.Context(), "i", 0, 0, held); err != nil {
					t.Error(err)
				}
				return fault.ErrUnavailable
			}
			send(t, f, pair("i", "2"))
			if err := f.Commit(t.Context()); !errors.Is(err, c.ends) {
				t.Errorf("%v, want %v", err, c.ends)
			}
			m.before, m.after = nil, nil
			if err := f.Abort(); err != nil {
				t.Error(err)
			}
			wantTree(t, h, map[string]string{sharedFile: pair("i", "1") + pair("i", "2")})
			finish(t, other, "1 shard failed")
			wantManifest(t, h, false, map[string]int64{sharedFile: 2})
		})
	}
}

// TestBucket_FinishKeepsObjectsOfItemsInProgress: a process finishes the export while another has an item: for the first time, and again.
func TestBucket_FinishKeepsObjectsOfItemsInProgress(t *testing.T) {
	h := bucketHome{newMemory(), 1, quick}
	one, two := share(t, h, "one"), share(t, h, "two")
	f := try(t, one, held, "1")
	finish(t, two, "")
	send(t, f, pair("i", "2"))
	commit(t, f)
	try(t, one, held, "3")
	finish(t, two, "")
	wantManifest(t, h, true, map[string]int64{sharedFile: 2})
	wantTree(t, h, map[string]string{sharedFile: pair("i", "1") + pair("i", "2")})
}
