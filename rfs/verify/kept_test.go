package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var errKilled = errors.New("killed")

// keyed returns units with keys, the reading of which ends after so many documents in all.
func keyed(us []Unit, name string, left *atomic.Int64) []Unit {
	for i, u := range us {
		us[i].Key = name + u.Name
		us[i].Read = func(ctx context.Context, each func(*Document) error) error {
			return u.Read(ctx, func(d *Document) error {
				if left.Add(-1) < 0 {
					return errKilled
				}
				return each(d)
			})
		}
	}
	return us
}

// reused returns how many units were not read because an earlier comparison had read them.
func reused(log *bytes.Buffer) int64 {
	return int64(strings.Count(log.String(), `"unit was read before"`))
}

func TestAComparisonThatWasKilledGoesOn(t *testing.T) {
	source, target := records(4000), records(4000)
	target[100].source = `{"other":1}`
	source[5].fate, source[6].fate = Filtered, Unsent
	target[5], target[6] = record{id: "a", source: `{}`}, record{id: "b", source: `{}`}
	failed := &Failed{}
	failed.Add("logs", "doc-7")
	target = slices.Delete(target, 7, 8)
	run := func(store Store, sourceName string, most int64, o Options) (*Index, int64, int64, error) {
		var left atomic.Int64
		left.Store(most)
		o.Store, o.Failed, o.Readers = store, orElse(o.Failed, failed), 1
		o.Pause = func(context.Context, time.Duration) error { return nil }
		o.Target = cluster{"logs": Held{Documents: 4000, Units: keyed(units("t", "logs", 5, target), "t", &left)}}
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		v := New(o)
		all, err := v.Compare(t.Context(), []Group{{Targets: []string{"logs"}, Units: keyed(units("s", "logs", 4, source), sourceName, &left)}})
		if err != nil {
			return nil, reused(&log), most - left.Load(), err
		}
		return all[0], reused(&log), most - left.Load(), nil
	}
	want, _, whole, err := run(nil, "s", 1_000_000, Options{})
	if err != nil || want.State != Different || want.Failed != 1 || want.Filtered != 1 || len(want.Unsent) != 1 {
		t.Fatalf("%+v, %v", want, err)
	}
	folder := Folder{filepath.Join(t.TempDir(), "kept")}
	reused := int64(0)
	for i := range 3 {
		_, again, _, err := run(folder, "s", 2500, Options{})
		if !errors.Is(err, errKilled) || again < reused || i == 2 && again == 0 {
			t.Fatalf("run %d: %v, %d units were read before", i, err, again)
		}
		reused = again
	}
	got, reused, read, err := run(folder, "s", 1_000_000, Options{})
	if err != nil || !reflect.DeepEqual(got, want) || reused == 0 || read >= whole {
		t.Errorf("%v: %d units were read before, %d of %d documents now\n%+v\nwant\n%+v", err, reused, read, whole, got, want)
	}
	other := &Failed{}
	other.Add("logs", "doc-8")
	for name, o := range map[string]Options{"another sample": {Sample: 0.5}, "another account of failures": {Failed: other}} {
		if _, reused, _, err := run(folder, "s", 1_000_000, o); err != nil || reused != 0 {
			t.Errorf("%s: %d units were read before, %v", name, reused, err)
		}
	}
	if _, reused, _, err := run(folder, "another snapshot", 1_000_000, Options{}); err != nil || reused != 5 {
		t.Errorf("another snapshot: %d units were read before, %v", reused, err)
	}
	if err := folder.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

func orElse(f, other *Failed) *Failed {
	if f != nil {
		return f
	}
	return other
}

func TestWhatIsKeptIsReadAsItWasWritten(t *testing.T) {
	h := newHasher()
	for _, n := range []int{0, 1, 255, 5000} {
		x := &tallied{index: "logs", table: newTable(256), filtered: 3, failed: 2, unsent: map[string]int64{"no_source": 7}}
		for _, r := range records(n) {
			d := &Document{ID: []byte(r.id), Source: []byte(r.source)}
			x.table.add(place(d.ID), h.digest(d), len(d.Source))
		}
		found := map[string]*tallied{"logs": x, "other": {index: "other", table: newTable(512), unsent: map[string]int64{}}}
		size := func(index string) int { return map[string]int{"logs": 256, "other": 512}[index] }
		b := encodeTallied(found)
		got, err := decodeTallied(b, size)
		if err != nil || !reflect.DeepEqual(got, found) {
			t.Fatalf("%d documents: %v", n, err)
		}
		for i := 0; i < len(b); i += 1 + len(b)/50 {
			damaged := bytes.Clone(b)
			damaged[i] ^= 1
			if _, err := decodeTallied(damaged, size); err == nil {
				t.Errorf("%d documents: byte %d is another and it is read", n, i)
			}
			if _, err := decodeTallied(b[:i], size); err == nil {
				t.Errorf("%d documents: %d bytes are read", n, i)
			}
		}
		if _, err := decodeTallied(b, func(string) int { return 1024 }); err == nil {
			t.Errorf("%d documents: with another number of buckets", n)
		}
	}
}

// FuzzKept: bytes with a digest that fits are refused or read, whatever they state.
func FuzzKept(f *testing.F) {
	f.Add(encodeTallied(map[string]*tallied{"a": {index: "a", table: newTable(256), unsent: map[string]int64{"r": 1}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := sha256.Sum256(b)
		_, _ = decodeTallied(append(bytes.Clone(b), sum[:]...), func(string) int { return 256 })
		_, _ = decodeTallied(b, func(string) int { return 256 })
	})
}
