package rollback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// cluster answers by path; a DELETE removes what is there.
type cluster struct {
	answers map[string]string
	deleted []string
	rejects string // a DELETE of this path
	dies    int    // at this DELETE, after it was done; 0: never
	any     string // the answer to every request; "": by path
}

func (c *cluster) Do(_ context.Context, method, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if c.any != "" {
		return c.anything(method, path)
	}
	a, ok := c.answers[path]
	if !ok {
		return http.StatusNotFound, []byte(`{}`), nil
	}
	if method != http.MethodDelete {
		return http.StatusOK, []byte(withMarks(a)), nil
	}
	if path == c.rejects {
		return http.StatusBadRequest, []byte(`{"error":"in use"}`), nil
	}
	delete(c.answers, path)
	if c.deleted = append(c.deleted, path); len(c.deleted) == c.dies {
		return 0, nil, fmt.Errorf("killed: %w", fault.ErrUnavailable)
	}
	return http.StatusOK, []byte(`{}`), nil
}

// index puts an index with one shard there.
func (c *cluster) index(name, uuid, settings, aliases string, seq int) {
	c.answers["/"+name] = fmt.Sprintf(`{%q:{"settings":{"index.uuid":%q%s},"aliases":{%s},"mappings":{"_meta":{"theirs":1,"rfsd":"@index/%s"}}}}`, name, uuid, settings, aliases, name)
	c.answers["/"+name+"/_stats/docs"] = fmt.Sprintf(`{"indices":{%q:{"shards":{"0":[{"routing":{"primary":true},"seq_no":{"max_seq_no":%d}}]}}}}`, name, seq)
}

// sessionMark is that of the session of the last coordinator.
var sessionMark objects.Mark

var placeOfMark = regexp.MustCompile(`"(@@?)([a-z-]+)/([^"]+)"`)

// withMarks puts the mark of the session into an answer, in the place of "@kind/name", or of "@@kind/name" as a description.
func withMarks(answer string) string {
	return placeOfMark.ReplaceAllStringFunc(answer, func(at string) string {
		m := placeOfMark.FindStringSubmatch(at)
		mark, _ := json.Marshal(map[string]string{"session": sessionMark.Session, "kind": m[2], "name": m[3], "mark": sessionMark.Token})
		if m[1] == "@@" {
			mark, _ = json.Marshal("of the user rfsd:" + string(mark))
		}
		return string(mark)
	})
}

func coordinator(t *testing.T) *cms.Coordinator {
	t.Helper()
	store := boltstore.Open(t)
	c := cms.New(cms.Config{Store: store, Creator: "t"})
	if _, err := session.IdentityOf(c).Init(t.Context(), session.Meta{}); err != nil {
		t.Fatal(err)
	}
	token, err := session.IdentityOf(c).Mark(t.Context())
	must(t, err)
	sessionMark = objects.Mark{Session: "s", Token: token}
	return c
}

func ledger(c *cluster, r *cms.Coordinator) *rollback.Ledger {
	return rollback.NewLedger(c, r, "s", slog.New(slog.DiscardHandler))
}

func undoing(c *cluster, r *cms.Coordinator) *rollback.Undo {
	return &rollback.Undo{API: c, Records: session.CreatedOf(r), Phases: session.PhasesOf(r), Mark: sessionMark, Tuned: func(context.Context) iter.Seq2[session.Tuned, error] { return func(func(session.Tuned, error) bool) {} },
		Restore: func(context.Context) (map[string]string, error) { return nil, nil }}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// states returns the list as "kind name state".
func states(all []rollback.Entry) (got []string) {
	for _, e := range all {
		got = append(got, e.Kind+" "+e.Name+" "+e.State)
	}
	return got
}

func template(shards int) string {
	return fmt.Sprintf(`{"t":{"order":0,"index_patterns":["x-*"],"settings":{"index":{"number_of_shards":"%d"}},"mappings":{"_meta":{"rfsd":"@template/t"}},"aliases":{}}}`, shards)
}

func TestAnIntentIsDecidedByWhatTheTargetHas(t *testing.T) {
	theirs := func(c *cluster, path string) { c.answers[path] = strings.ReplaceAll(c.answers[path], "/t\"", "/u\"") }
	for _, c := range []struct {
		name       string
		kind       string
		on         func(*cluster)
		want, kept []string // without and with another run of the migration
	}{
		{"the process died before it created the index", rollback.Index, func(*cluster) {}, nil, nil},
		{"the process died after it created the index", rollback.Index, func(c *cluster) { c.index("t", "u", "", "", -1) }, []string{"index t created"}, []string{"index t created"}},
		{"another client created it", rollback.Index, func(c *cluster) { c.index("t", "u", "", "", -1); theirs(c, "/t") }, nil, nil},
		{"another client created it by a template of the session", rollback.Index, func(c *cluster) {
			c.index("t", "u", "", "", -1)
			c.answers["/t"] = strings.ReplaceAll(c.answers["/t"], "@index/t", "@template/t")
		}, nil, nil},
		{"it holds copies only, and the record states that it is a migrated one", rollback.Index, func(c *cluster) {
			c.index("t", "u", "", "", -1)
			c.answers["/t"] = strings.ReplaceAll(c.answers["/t"], "@index/t", "@scratch/t")
		}, nil, nil},
		{"an alias has the name", rollback.Index, func(c *cluster) { c.answers["/t"] = `{"other":{"settings":{},"aliases":{"t":{}}}}` }, nil, nil},
		{"the process died after it created the template", "template", func(c *cluster) { c.answers["/_template/t"] = template(2) }, []string{"template t created"}, []string{"template t created"}},
		{"another client created it", "template", func(c *cluster) { c.answers["/_template/t"] = template(2); theirs(c, "/_template/t") }, nil, nil},
		{"no template is there", "template", func(*cluster) {}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, r := &cluster{answers: map[string]string{}}, coordinator(t)
			l := ledger(on, r)
			must(t, l.Intend(t.Context(), c.kind, "t"))
			c.on(on)
			all, err := undoing(on, r).List(t.Context())
			if must(t, err); !slices.Equal(states(all), c.want) {
				t.Errorf("list: %q", states(all))
			}
			must(t, l.Decide(t.Context(), c.kind, "t"))
			if all, err = undoing(on, r).List(t.Context()); err != nil || !slices.Equal(states(all), c.kept) {
				t.Errorf("list after another run: %q, %v", states(all), err)
			}
		})
	}
}

func TestWhatExistedBeforeIsNeverListed(t *testing.T) {
	on, r := &cluster{answers: map[string]string{"/_template/t": template(2)}}, coordinator(t)
	on.index("old", "u", "", "", 5)
	l := ledger(on, r)
	must(t, l.Decide(t.Context(), rollback.Index, "old"))
	must(t, l.Decide(t.Context(), "template", "t"))
	must(t, l.Intend(t.Context(), "pipeline", "p"))
	must(t, l.Withdraw(t.Context(), "pipeline", "p")) // the target refused it
	on.answers["/_ingest/pipeline/p"] = `{"p":{"processors":[]}}`
	all, err := undoing(on, r).List(t.Context())
	if must(t, err); len(all) != 0 {
		t.Errorf("list: %q", states(all))
	}
}

// migrated is a session that ended: index a with an alias, index b, template t, pipeline p.
func migrated(t *testing.T) (*cluster, *cms.Coordinator, *rollback.Ledger) {
	t.Helper()
	on, r := &cluster{answers: map[string]string{"/_template/t": template(2), "/_ingest/pipeline/p": `{"p":{"description":"@@pipeline/p"}}`, "/_all/_settings/index.default_pipeline,index.final_pipeline": `{}`}}, coordinator(t)
	l := ledger(on, r)
	for _, name := range []string{"a", "b"} {
		must(t, l.Intend(t.Context(), rollback.Index, name))
		on.index(name, "u"+name, "", "", -1)
		must(t, l.Confirm(t.Context(), rollback.Index, name))
		on.index(name, "u"+name, "", "", 7)
	}
	for kind, name := range map[string]string{"template": "t", "pipeline": "p"} {
		must(t, l.Intend(t.Context(), kind, name))
		must(t, l.Confirm(t.Context(), kind, name))
	}
	return on, r, l
}

// ended gives index a its alias and ends the session.
func ended(t *testing.T, on *cluster, l *rollback.Ledger) {
	t.Helper()
	must(t, l.Seal(t.Context()))
	must(t, l.IntendAliases(t.Context(), "a", json.RawMessage(`{"read":{}}`)))
	reset(on, "", `"read":{}`, 7)
}

// reset changes index a.
func reset(on *cluster, settings, aliases string, seq int) {
	on.index("a", "ua", settings, aliases, seq)
}

func TestUndoRefusesDocumentsOfAMigrationThatDidNotEnd(t *testing.T) {
	on, r, _ := migrated(t)
	on.index("b", "ub", "", "", -1)
	all, err := undoing(on, r).List(t.Context())
	must(t, err)
	for _, e := range all {
		if e.Name == "a" && (e.State != rollback.Refused || !strings.Contains(e.Reason, "run the migration to its end")) {
			t.Errorf("%+v", e)
		}
		if e.Name == "b" && e.State != rollback.Created { // nothing was ever written to it
			t.Errorf("%+v", e)
		}
	}
	all, err = undoing(on, r).Run(t.Context()) // the session is closed: its migration cannot be run any more
	must(t, err)
	for _, e := range all {
		if e.Name == "a" && (e.State != rollback.Refused || strings.Contains(e.Reason, "run the migration")) {
			t.Errorf("%+v", e)
		}
	}
}

// TestLedger_DiscardsWhatAnUndoRemoves: an index that the source recreated is removed from the target only where an undo would remove it.
func TestLedger_DiscardsWhatAnUndoRemoves(t *testing.T) {
	for _, c := range []struct {
		name, uuid string
		before     func(on *cluster, l *rollback.Ledger)
		discarded  bool
		refused    string
	}{
		{name: "as the last round left it", uuid: "ua", discarded: true},
		{name: "another index has the name", uuid: "former"},
		{name: "it was written to since", uuid: "ua", before: func(on *cluster, _ *rollback.Ledger) { reset(on, "", "", 9) }, refused: "it was written to after the migration"},
		{name: "it does not carry the mark", uuid: "ua", before: func(on *cluster, _ *rollback.Ledger) {
			on.answers["/a"] = strings.ReplaceAll(on.answers["/a"], "@index/a", "none")
		}, refused: "mark"},
		{name: "the round that filled it has not ended", uuid: "ua", before: func(_ *cluster, l *rollback.Ledger) { must(t, l.Unseal(t.Context())) }, refused: "run the migration to its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, _, l := migrated(t)
			must(t, l.Seal(t.Context()))
			if c.before != nil {
				c.before(on, l)
			}
			discarded, err := l.Discard(t.Context(), "a", c.uuid)
			if c.refused != "" {
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v, want %q", err, c.refused)
				}
			} else if err != nil || discarded != c.discarded {
				t.Errorf("%v, %v", discarded, err)
			}
			if gone := len(on.deleted) == 1 && on.deleted[0] == "/a"; gone != c.discarded || len(on.deleted) > 1 {
				t.Errorf("removed %q", on.deleted)
			}
		})
	}
	_, _, l := migrated(t)
	if discarded, err := l.Discard(t.Context(), "theirs", "ut"); discarded || err != nil {
		t.Errorf("an index without a record: %v, %v", discarded, err)
	}
}

func TestUndoContinuesAfterEveryDeath(t *testing.T) {
	for dies := 1; dies <= 4; dies++ {
		on, r, l := migrated(t)
		ended(t, on, l)
		on.dies = dies
		if _, err := undoing(on, r).Run(t.Context()); !errors.Is(err, fault.ErrUnavailable) {
			t.Fatalf("death at %d: %v", dies, err)
		}
		if _, err := undoing(on, r).Run(t.Context()); err != nil {
			t.Fatalf("after death at %d: %v", dies, err)
		}
		if len(on.deleted) != 4 || len(slices.Compact(slices.Sorted(slices.Values(on.deleted)))) != 4 {
			t.Errorf("after death at %d: removed %q", dies, on.deleted)
		}
		if all, err := undoing(on, r).List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("after death at %d: left %q, %v", dies, states(all), err)
		}
	}
}

func TestASessionThatIsUndoneCreatesNothing(t *testing.T) {
	_, r, l := migrated(t)
	must(t, session.IdentityOf(r).BeginUndo(t.Context()))
	if err := l.Intend(t.Context(), rollback.Index, "c"); !errors.Is(err, session.ErrUndone) {
		t.Errorf("intent: %v", err)
	}
	if _, err := session.IdentityOf(r).Init(t.Context(), session.Meta{}); !errors.Is(err, session.ErrUndone) {
		t.Errorf("joined: %v", err)
	}
	must(t, session.IdentityOf(r).BeginUndo(t.Context()))
}

func TestARepositoryThatTheSourceKnewIsNotListed(t *testing.T) {
	for _, c := range []struct {
		name       string
		dies       bool // the first process, before it knows the outcome
		registered bool
		want       int
	}{{"registered", false, true, 1}, {"known before", false, false, 0}, {"the answer was lost", true, false, 1}} {
		t.Run(c.name, func(t *testing.T) {
			r := coordinator(t)
			l := ledger(&cluster{}, r)
			first, err := l.IntendRepository(t.Context(), "backup")
			must(t, err)
			if c.dies {
				first, err = l.IntendRepository(t.Context(), "backup")
				must(t, err)
			}
			must(t, l.RegisteredRepository(t.Context(), "backup", first, c.registered))
			all, err := undoing(nil, r).List(t.Context())
			if must(t, err); len(all) != c.want || c.want > 0 && all[0].State != rollback.OnSource {
				t.Errorf("list: %q", states(all))
			}
		})
	}
}
