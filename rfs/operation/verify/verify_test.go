package verify

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// record is a document of a side that is made up.
type record struct {
	id, routing, source string
	fate                Fate
	since               bool // written after the migration
}

func records(n int) []record {
	all := make([]record, n)
	for i := range all {
		all[i] = record{id: fmt.Sprintf("doc-%d", i), source: fmt.Sprintf(`{"n":%d.0,"t":"text %d","l":[%d,true]}`, i, i, i*7)}
	}
	return all
}

// units deals records out to n units in turn.
func units(name, index string, n int, all []record) []Unit {
	var us []Unit
	for u := range n {
		us = append(us, Unit{Name: fmt.Sprintf("%s/%d", name, u), Read: func(_ context.Context, from int64, each func(*Document) error) error {
			for i := u; i < len(all); i += n {
				r := all[i]
				if int64(i) < from {
					continue
				}
				err := each(&Document{Index: []byte(index), ID: []byte(r.id), Routing: []byte(r.routing), Source: []byte(r.source), Shard: u, Ordinal: int64(i), Fate: r.fate, Reason: "no_source", Since: r.since})
				if err != nil {
					return err
				}
			}
			return nil
		}})
	}
	return us
}

// cluster is a target by names.
type cluster map[string]Content

func (c cluster) Content(_ context.Context, name string) (Content, error) {
	h, ok := c[name]
	if !ok {
		return Content{Absent: true}, nil
	}
	return h, nil
}

func (c cluster) Count(_ context.Context, name string) (int64, bool, error) {
	h, ok := c[name]
	return h.Documents, ok, nil
}

// work returns the place of a comparison by one process.
func work(t *testing.T) Work {
	t.Helper()
	store, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "state"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return Work{Store: store, Clock: timing.SystemClock(), Holder: "test", Identity: "snapshot"}
}

func compared(t *testing.T, o Options, source []Unit, held Content) *Index {
	t.Helper()
	o.Target, o.Work = cluster{"logs": held}, work(t)
	o.Pause = func(context.Context, time.Duration) error { return nil }
	all, err := New(o).Compare(t.Context(), []Group{{Targets: []string{"logs"}, Sources: []string{"logs"}, Units: source}})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func TestVerifierNamesWhatDiffers(t *testing.T) {
	source := records(4000)
	source[7].routing = "a"
	target := records(4000)
	target[7].routing = "b"                                                     // other routing
	target[100].source = strings.Replace(target[100].source, "text", "test", 1) // one byte
	target[200].source = strings.Replace(target[200].source, ".0", "", 1)       // another form
	target[300] = record{id: "extra", source: `{}`}                             // one missing, one extra
	for _, c := range []struct{ readers, sourceUnits, targetUnits int }{{1, 1, 1}, {8, 5, 3}, {2, 7, 16}} {
		x := compared(t, Options{Readers: c.readers}, units("s", "logs", c.sourceUnits, source), Content{Documents: 4000, Units: units("t", "logs", c.targetUnits, target)})
		got := map[Kind]Difference{}
		for _, d := range x.Differences {
			got[d.Kind] = d
		}
		b := "b"
		want := map[Kind]Difference{
			OtherRouting: {Kind: OtherRouting, ID: "doc-7", Routing: "a", TargetRouting: &b, Shard: 7 % c.sourceUnits, Ordinal: 7},
			Changed:      {Kind: Changed, ID: "doc-100", Path: "t", Shard: 100 % c.sourceUnits, Ordinal: 100},
			SameValue:    {Kind: SameValue, ID: "doc-200", Path: "n", Shard: 200 % c.sourceUnits, Ordinal: 200},
			Missing:      {Kind: Missing, ID: "doc-300", Shard: 300 % c.sourceUnits, Ordinal: 300},
			Extra:        {Kind: Extra, ID: "extra"},
		}
		if len(x.Differences) != 5 || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %+v, want %+v", c, got, want)
		}
		if x.State != Different || x.NotNamed.Buckets != 0 || x.SourceSide.Documents != 4000 || x.TargetSide.Documents != 4000 {
			t.Errorf("%+v: %+v", c, x)
		}
	}
}

func TestDigestsDoNotDependOnHowTheSidesAreRead(t *testing.T) {
	source := records(2000)
	var first Tally
	for i, n := range []int{1, 3, 8} {
		x := compared(t, Options{Readers: n}, units("s", "logs", n, source), Content{Documents: int64(10 + i*100_000), Units: units("t", "logs", 4-i, source)})
		if x.State != Equal || x.SourceSide != x.TargetSide {
			t.Fatalf("%d units: %+v", n, x)
		}
		if i == 0 {
			first = x.SourceSide
		}
		if x.SourceSide != first {
			t.Errorf("%d units: %+v, want %+v", n, x.SourceSide, first)
		}
	}
}

func TestADocumentThatIsThereTwiceDoesNotCancelItselfOut(t *testing.T) {
	source := records(10)
	x := compared(t, Options{}, units("s", "logs", 1, source), Content{Units: units("t", "logs", 1, append(source[2:], source[2], source[2]))})
	if x.State != Different || x.Counts[Missing] != 2 || x.Counts[Extra] != 2 {
		t.Errorf("%+v", x.Counts)
	}
}

func TestOnlyAPartIsNamedWhenAllDiffers(t *testing.T) {
	source := records(5000)
	for _, target := range [][]record{nil, func() []record {
		all := records(5000)
		for i := range all {
			all[i].source = `{}`
		}
		return all
	}()} {
		x := compared(t, Options{Names: 50}, units("s", "logs", 2, source), Content{Documents: 5000, Units: units("t", "logs", 2, target)})
		counted := x.NotNamed.Documents
		for _, n := range x.Counts {
			counted += n
		}
		if len(x.Differences) != 50 || counted != 5000 || x.State != Different {
			t.Errorf("%d named, %d counted, state %s", len(x.Differences), counted, x.State)
		}
	}
}

// TestVerifier_FailedDocumentsThatAreAllThereAreCompared has two failed documents on the target.
func TestVerifier_FailedDocumentsThatAreAllThereAreCompared(t *testing.T) {
	source := records(1000)
	failed := &Failed{}
	for _, i := range []int{10, 11} {
		failed.Add("logs", source[i].id)
	}
	for name, c := range map[string]struct {
		change func(r *record)
		want   State
	}{
		"equal":         {func(*record) {}, Equal},
		"other source":  {func(r *record) { r.source = `{"other":1}` }, FailedDocuments},
		"other routing": {func(r *record) { r.routing = "elsewhere" }, FailedDocuments},
	} {
		t.Run(name, func(t *testing.T) {
			target := slices.Clone(source)
			c.change(&target[11])
			x := compared(t, Options{Failed: failed}, units("s", "logs", 3, source), Content{Documents: 1000, Units: units("t", "logs", 2, target)})
			if x.State != c.want || x.Failed != 2 || x.FailedThere != 2 || len(x.Counts) > 0 {
				t.Errorf("%+v", x)
			}
		})
	}
}

func TestWhatTheSourceExplainsIsNoDifference(t *testing.T) {
	source := records(1000)
	source[1].fate, source[2].fate, source[3].fate = Filtered, Unsent, Unsent
	failed := &Failed{}
	for _, i := range []int{10, 11} {
		failed.Add("logs", source[i].id)
	}
	target := append(append([]record{}, source[0]), source[4:10]...)
	target = append(target, source[11:]...) // 11 arrived later
	x := compared(t, Options{Failed: failed}, units("s", "logs", 3, source), Content{Documents: 1000, Units: units("t", "logs", 2, target)})
	if x.State != FailedDocuments || x.Filtered != 1 || x.Unsent["no_source"] != 2 || x.Failed != 2 || x.FailedThere != 1 || x.SourceSide.Documents != 995 {
		t.Errorf("%+v", x)
	}
	if x.SourceDocuments != 1000 || x.TargetDocuments != 996 {
		t.Errorf("%d documents in the source and %d on the target, want 1000 and 996", x.SourceDocuments, x.TargetDocuments)
	}
}

func TestATargetWithoutItsSourcesIsComparedByIds(t *testing.T) {
	source, target := records(1000), records(1000)
	for i := range target {
		target[i].source = ""
	}
	held := Content{Documents: 1000, NotComparable: "_source is disabled", Units: units("t", "logs", 2, target)}
	if x := compared(t, Options{}, units("s", "logs", 2, source), held); x.State != NotComparable || x.NotComparable == "" {
		t.Errorf("%+v", x)
	}
	held.Units = units("t", "logs", 2, target[1:])
	if x := compared(t, Options{}, units("s", "logs", 2, source), held); x.State != Different || x.Counts[Missing] != 1 || len(x.Differences) != 1 {
		t.Errorf("%+v", x)
	}
}

func TestASampleIsTheSamePartOfBothSides(t *testing.T) {
	source := records(20_000)
	x := compared(t, Options{Sample: 0.01}, units("s", "logs", 2, source), Content{Documents: 20_000, Units: units("t", "logs", 3, source)})
	if n := x.SourceSide.Documents; x.State != Equal || n != x.TargetSide.Documents || n < 120 || n > 280 || x.SourceDocuments != 20_000 || x.TargetDocuments != 20_000 {
		t.Errorf("%d and %d of 20000 documents, state %s", n, x.TargetSide.Documents, x.State)
	}
}

func TestAnAbsentIndexHasNothing(t *testing.T) {
	all, err := New(Options{Target: cluster{}, Work: work(t)}).Compare(t.Context(), []Group{{Targets: []string{"logs"}, Units: units("s", "logs", 1, records(3))}})
	if err != nil || all[0].State != Different || all[0].Counts[Missing] != 3 || all[0].Note == "" {
		t.Errorf("%+v, %v", all[0], err)
	}
}

// TestATargetUnitIsReadAgainFromItsBeginning lets every unit of the target fail in its middle, twice in each reading.
func TestATargetUnitIsReadAgainFromItsBeginning(t *testing.T) {
	source, target := records(1000), records(1000)
	target[500].source = `{"n":1}`
	var mu sync.Mutex
	failures := map[string]int{}
	flaky := units("t", "logs", 3, target)
	for i, u := range flaky {
		flaky[i].Read = func(ctx context.Context, from int64, each func(*Document) error) error {
			mu.Lock()
			failures[u.Name]++
			fails := failures[u.Name]%3 != 0
			mu.Unlock()
			n := 0
			return u.Read(ctx, from, func(d *Document) error {
				if n++; fails && n == 100 {
					return fmt.Errorf("search: %w", fault.ErrUnavailable)
				}
				return each(d)
			})
		}
	}
	x := compared(t, Options{Readers: 2}, units("s", "logs", 2, source), Content{Documents: 1000, Units: flaky})
	if x.TargetSide.Documents != 1000 || len(x.Differences) != 1 || x.Differences[0].ID != "doc-500" {
		t.Errorf("%+v", x)
	}
}

func TestATargetThatStaysAwayEndsTheRun(t *testing.T) {
	away := []Unit{{Name: "t", Read: func(context.Context, int64, func(*Document) error) error { return fault.ErrUnavailable }}}
	v := New(Options{Target: cluster{"logs": {Units: away}}, Work: work(t), Pause: func(context.Context, time.Duration) error { return nil }})
	if _, err := v.Compare(t.Context(), []Group{{Targets: []string{"logs"}}}); !errors.Is(err, fault.ErrUnavailable) {
		t.Error(err)
	}
}

func TestADamagedShardMakesAnIndexUnreadable(t *testing.T) {
	damaged := append(units("s", "logs", 2, records(10)), Unit{Name: "s/2", Read: func(context.Context, int64, func(*Document) error) error {
		return fault.Corrupt("blob", "_0.fdt", 7, "checksum")
	}})
	x := compared(t, Options{}, damaged, Content{Units: units("t", "logs", 1, records(15))})
	if x.State != Unreadable || len(x.Problems) != 1 || !strings.Contains(x.Problems[0], "_0.fdt") {
		t.Errorf("%+v", x)
	}
}

func TestCount(t *testing.T) {
	failed := &Failed{}
	failed.Add("logs", "1")
	failed.Add("logs", "1")
	failed.Add("logs", "2")
	for _, c := range []struct {
		name           string
		source, target int64
		uncounted      string
		failed         *Failed
		want           State
	}{
		{"equal", 5, 5, "", nil, Equal},
		{"one missing", 5, 4, "", nil, Different},
		{"one extra", 5, 6, "", nil, Different},
		{"two failed", 5, 3, "", failed, FailedDocuments},
		{"one of the failed arrived", 5, 4, "", failed, FailedDocuments},
		{"all of the failed arrived", 5, 5, "", failed, Equal},
		{"more missing than failed", 5, 2, "", failed, Different},
		{"rules may leave documents out", 5, 4, "rules", nil, NotComparable},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := []Unit{{Count: func(context.Context) (int64, error) { return c.source, nil }}}
			v := New(Options{Target: cluster{"logs": {Documents: c.target}}, Failed: c.failed})
			all, err := v.Count(t.Context(), []Group{{Targets: []string{"logs"}, Sources: []string{"logs"}, Units: u, Uncounted: c.uncounted}})
			if err != nil || all[0].State != c.want {
				t.Errorf("%+v, %v; want %s", all, err, c.want)
			}
		})
	}
}

func TestWhatChangedSinceTheMigrationIsToldApart(t *testing.T) {
	since := func(r record) record { r.since = true; return r }
	for _, c := range []struct {
		name   string
		change func(target []record) []record
		state  State
		counts map[Kind]int64
		named  Difference
	}{
		{"another value", func(d []record) []record { d[3] = since(record{id: "doc-3", source: `{"n":9}`}); return d }, Since, map[Kind]int64{ChangedSince: 1},
			Difference{Kind: ChangedSince, Change: Changed, ID: "doc-3", Path: "n", Ordinal: 3}},
		{"another form", func(d []record) []record { d[3] = since(record{id: "doc-3", source: " " + d[3].source}); return d }, Since, map[Kind]int64{ChangedSince: 1},
			Difference{Kind: ChangedSince, Change: SameValue, ID: "doc-3", Ordinal: 3}},
		{"a new document", func(d []record) []record { return append(d, since(record{id: "new", source: `{}`})) }, Since, map[Kind]int64{ChangedSince: 1},
			Difference{Kind: ChangedSince, Change: Extra, ID: "new"}},
		{"written again as it was", func(d []record) []record { d[3].since = true; return d }, Equal, nil, Difference{}},
		{"deleted, which leaves no number", func(d []record) []record { return append(d[:3], d[4:]...) }, Different, map[Kind]int64{Missing: 1},
			Difference{Kind: Missing, ID: "doc-3", Ordinal: 3}},
		{"one of two is not explained", func(d []record) []record {
			d[4].source = `{}`
			return append(d, since(record{id: "new", source: `{}`}))
		}, Different, map[Kind]int64{ChangedSince: 1, Changed: 1}, Difference{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := records(50)
			x := compared(t, Options{}, units("s", "logs", 1, source), Content{Documents: 50, Units: units("t", "logs", 1, c.change(records(50)))})
			if x.State != c.state || !reflect.DeepEqual(x.Counts, c.counts) {
				t.Errorf("%s, %v", x.State, x.Counts)
			}
			if len(x.Differences) == 1 && x.Differences[0] != c.named {
				t.Errorf("%+v, want %+v", x.Differences[0], c.named)
			}
			r := &Report{Indices: []*Index{{State: Equal}, x}}
			if r.Conclude(); r.State != c.state {
				t.Errorf("the report is %s", r.State)
			}
		})
	}
}

// TestFailed_JoinAndRemove: a set is the same whatever was added to it and removed from it before.
func TestFailed_JoinAndRemove(t *testing.T) {
	want, all, other := &Failed{}, &Failed{}, &Failed{}
	want.Add("a", "1")
	want.Add("b", "1")
	for _, id := range []string{"1", "2"} {
		all.Add("a", id)
		other.Add("b", id)
	}
	all.Remove("a", []byte("2"))
	all.Remove("a", []byte("3"))
	other.Remove("b", []byte("2"))
	other.Add("a", "1")
	if !all.Join(other) || all.Len() != 2 || all.sum != want.sum || !slices.Equal(all.Indices(), []string{"a", "b"}) || all.of("a") != 1 || all.Has("a", []byte("2")) || !all.Has("b", []byte("1")) {
		t.Errorf("%+v, want %+v", all, want)
	}
	all.Remove("b", []byte("1"))
	if !slices.Equal(all.Indices(), []string{"a"}) {
		t.Errorf("%q", all.Indices())
	}
}
