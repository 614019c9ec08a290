package importer_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// ledger notes what is recorded, in order.
type ledger struct {
	calls  []string
	refuse error // of Intend
}

func (l *ledger) note(call, name string) error {
	l.calls = append(l.calls, call+" "+name)
	return nil
}

func (l *ledger) Mark(context.Context) (objects.Mark, error) { return objects.Mark{}, nil }
func (l *ledger) Intend(_ context.Context, kind, name string) error {
	return errors.Join(l.note("intend", kind+" "+name), l.refuse)
}
func (l *ledger) Confirm(_ context.Context, _, name string) error  { return l.note("confirm", name) }
func (l *ledger) Decide(_ context.Context, _, name string) error   { return l.note("decide", name) }
func (l *ledger) Withdraw(_ context.Context, _, name string) error { return l.note("withdraw", name) }
func (l *ledger) Seal(context.Context, ...rollback.Own) error      { return l.note("seal", "") }
func (l *ledger) Unseal(context.Context, ...string) error          { return l.note("unseal", "") }

// oneIndex is a target where the creation of an index ends with err.
type oneIndex struct {
	there   bool
	err     error
	created int
}

func (c *oneIndex) IndexExists(context.Context, string) (bool, error) { return c.there, nil }
func (c *oneIndex) CreateIndex(context.Context, string, []byte) error {
	c.created++
	return c.err
}

func TestCreatedIndicesAreRecorded(t *testing.T) {
	described := func(made, known bool, err error) func(context.Context, string, objects.Mark) (bool, bool, error) {
		return func(context.Context, string, objects.Mark) (bool, bool, error) { return made, known, err }
	}
	for _, c := range []struct {
		name    string
		on      oneIndex
		make    func(context.Context, string, objects.Mark) (bool, bool, error)
		refuse  error
		want    []string
		fails   error
		created int
	}{
		{name: "created", want: []string{"intend index a", "confirm a"}, created: 1},
		{name: "it is there", on: oneIndex{there: true}, want: []string{"decide a"}},
		{name: "another process was faster", on: oneIndex{err: &fault.StatusError{Status: 400, Type: "resource_already_exists_exception"}}, want: []string{"intend index a", "decide a"}, created: 1},
		{name: "the target rejects it", on: oneIndex{err: fault.ErrRejected}, want: []string{"intend index a", "withdraw a"}, fails: fault.ErrRejected, created: 1},
		{name: "the answer was lost", on: oneIndex{err: fault.ErrUnavailable}, want: []string{"intend index a"}, fails: fault.ErrUnavailable, created: 1},
		{name: "as the export describes it", make: described(true, true, nil), want: []string{"intend index a", "confirm a"}},
		{name: "the export does not describe it", make: described(false, false, nil), want: []string{"intend index a", "confirm a"}, created: 1},
		{name: "another process was faster with the export", make: described(false, true, nil), want: []string{"intend index a", "decide a"}},
		{name: "the target rejects the description", make: described(false, true, fault.ErrRejected), want: []string{"intend index a", "withdraw a"}, fails: fault.ErrRejected},
		{name: "the description is damaged", make: described(false, false, fault.ErrCorrupt), want: []string{"intend index a"}, fails: fault.ErrCorrupt},
		{name: "the session is undone", refuse: session.ErrUndone, want: []string{"intend index a"}, fails: session.ErrUndone},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &ledger{refuse: c.refuse}
			x := &importer.TargetIndices{Cluster: &c.on, Creates: true, Make: c.make, Ledger: l}
			err := x.Ensure(t.Context(), []byte("a"))
			if !errors.Is(err, c.fails) || c.fails == nil && err != nil {
				t.Errorf("%v", err)
			}
			if !slices.Equal(l.calls, c.want) || c.on.created != c.created {
				t.Errorf("%q, %d requests", l.calls, c.on.created)
			}
		})
	}
}

// TestTargetIndices_Create: an index without documents is created and recorded like others, and one that is there is left alone.
func TestTargetIndices_Create(t *testing.T) {
	for _, c := range []struct {
		name string
		on   oneIndex
		want []string
	}{
		{name: "created", want: []string{"intend index a", "confirm a"}},
		{name: "it is there", on: oneIndex{there: true}},
	} {
		l := &ledger{}
		x := &importer.TargetIndices{Cluster: &c.on, Creates: true, Ledger: l}
		if err := x.Create(t.Context(), "a"); err != nil || !slices.Equal(l.calls, c.want) {
			t.Errorf("%s: %q, %v", c.name, l.calls, err)
		}
	}
}

// created is a target that remembers which indices it was to create.
type created struct {
	importer.Indices
	names *[]string
}

func (c created) Create(_ context.Context, name string) error {
	*c.names = append(*c.names, name)
	return nil
}

// TestImport_CreatesDescribedIndices: once, before the first document, and without system indices unless they are imported.
func TestImport_CreatesDescribedIndices(t *testing.T) {
	for _, system := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			w.small()
			var names []string
			node := w.node(func(m *importer.Import) {
				m.Indices, m.IncludeSystem = created{m.Indices, &names}, system
				m.Described = func(context.Context) ([]string, error) { return []string{".system", "empty"}, nil }
			})
			want := []string{"empty"}
			if system {
				want = []string{".system", "empty"}
			}
			for range 2 {
				if s := run(t, node); !s.Complete || !slices.Equal(names, want) {
					t.Errorf("system indices %v: created %q, %+v", system, names, s)
				}
			}
		})
	}
}

// TestImport_SetsAliasesAtItsEnd: once, when every document has arrived, and again where that failed.
func TestImport_SetsAliasesAtItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.small()
		calls, fails := 0, fault.ErrRejected
		node := w.node(func(m *importer.Import) {
			m.Aliases = func(context.Context) error {
				calls++
				if s, err := importer.Read(t.Context(), w.session); err != nil || s.End != nil {
					t.Errorf("the import has ended before its aliases are set: %v", err)
				}
				return fails
			}
		})
		if _, err := node.Run(t.Context()); !errors.Is(err, fault.ErrRejected) || calls == 0 {
			t.Errorf("%v, set %d times", err, calls)
		}
		calls, fails = 0, nil // each of its workers may have tried
		for range 2 {
			if s := run(t, node); !s.Complete {
				t.Errorf("%+v", s)
			}
		}
		if calls != 1 {
			t.Errorf("set %d times", calls)
		}
	})
	inBubble(t, func(t *testing.T, w *world) {
		w.small()
		w.write("damaged.ndjson", "no gzip")
		rename(t, w.dir, "damaged.ndjson", "damaged.ndjson.gz")
		node := w.node(func(m *importer.Import) {
			m.Aliases = func(context.Context) error { t.Error("set although documents are missing"); return nil }
		})
		if s := run(t, node); s.GivenUp != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestAnImportSealsItsIndicesWhenItEnds: at its end, not when it is complete already, and again after an operator has opened an
// item of it.
func TestAnImportSealsItsIndicesWhenItEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.small()
		w.write("damaged.ndjson", "no gzip")
		rename(t, w.dir, "damaged.ndjson", "damaged.ndjson.gz")
		l := &ledger{}
		recorded := func(m *importer.Import) { m.Ledger = l }
		for range 2 {
			if s := run(t, w.node(recorded)); !s.Complete || s.GivenUp != 1 {
				t.Fatalf("%+v", s)
			}
		}
		for _, x := range w.account().Windows {
			if !x.FailedItem() {
				continue
			}
			if err := w.session.Reopen(t.Context(), x.ID, "operator"); err != nil {
				t.Fatal(err)
			}
		}
		run(t, w.node(recorded))
		if want := []string{"seal ", "unseal ", "seal "}; !slices.Equal(l.calls, want) {
			t.Errorf("%q", l.calls)
		}
	})
}
