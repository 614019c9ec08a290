package rollback_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

func TestUndoRefusesWhatOthersChanged(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*cluster)
		refused string // of the list; "" for none
		reason  string
	}{
		{"nothing", func(*cluster) {}, "", ""},
		{"a document was written", func(on *cluster) { reset(on, "", `"read":{}`, 8) }, "index a", "written to after the migration: 1 operations in shard a/0"},
		{"another index of the name", func(on *cluster) { on.index("a", "other", "", `"read":{}`, 7) }, "index a", "another one of that name"},
		{"an alias was added", func(on *cluster) { reset(on, "", `"read":{},"theirs":{}`, 7) }, "index a", "theirs"},
		{"settings, an alias and a template with their marks", func(on *cluster) {
			reset(on, `,"index.refresh_interval":"5s"`, `"read":{"filter":{"term":{"x":1}}}`, 7)
			on.answers["/_template/t"] = template(9)
		}, "", ""},
		{"an alias was moved", func(on *cluster) { reset(on, "", "", 7) }, "", ""},
		{"an alias has the name of the index now", func(on *cluster) { on.answers["/a"] = `{"b":{"settings":{},"aliases":{"a":{}}}}` }, "index a", "an alias has its name now"},
		{"a shard was lost", func(on *cluster) {
			on.answers["/a/_stats/docs"] = `{"indices":{"a":{"shards":{"1":[{"routing":{"primary":true},"seq_no":{"max_seq_no":3}}]}}}}`
		}, "index a", "it has a shard a/1 that it did not have"},
		{"a removal is rejected", func(on *cluster) { on.rejects = "/_template/t" }, "template t", "the target refuses"},
		{"the mark of an index was removed", func(on *cluster) { on.answers["/a"] = strings.ReplaceAll(on.answers["/a"], "@index/a", "none") }, "index a", "does not carry the mark of this session"},
		{"the operator named another session", func(on *cluster) {
			on.answers["/a"] = strings.ReplaceAll(on.answers["/a"], `"@index/a"`, fmt.Sprintf(`{"session":"night","kind":"index","name":"a","mark":%q}`, sessionMark.Token))
		}, "index a", `its mark names the session "night": give --session-name "night"`},
		{"the mark of a pipeline was removed", func(on *cluster) { on.answers["/_ingest/pipeline/p"] = `{"p":{"description":"theirs"}}` }, "pipeline p", "DELETE /_ingest/pipeline/p"},
		{"a pipeline is used", func(on *cluster) {
			on.answers["/_all/_settings/index.default_pipeline,index.final_pipeline"] = `{"theirs":{"settings":{"index.default_pipeline":"p"}}}`
		}, "pipeline p", "index theirs uses it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, r, l := migrated(t)
			ended(t, on, l)
			c.change(on)
			before := len(on.answers)
			all, err := undoing(on, r).Run(t.Context())
			must(t, err)
			for _, e := range all {
				name := e.Kind + " " + e.Name
				goesWith := c.refused == "index a" && name == "alias read of a"
				switch {
				case name == c.refused && (e.State != rollback.Refused || !strings.Contains(e.Reason, c.reason)):
					t.Errorf("%s: %s %s", name, e.State, e.Reason)
				case name != c.refused && !goesWith && e.State != rollback.Removed:
					t.Errorf("%s: %s %s", name, e.State, e.Reason)
				}
			}
			want := 4
			if c.refused != "" && !strings.HasPrefix(c.refused, "alias") {
				want = 3
			}
			if len(on.deleted) != want || len(on.answers) != before-want {
				t.Errorf("removed %q", on.deleted)
			}
		})
	}
}

// TestUndo_AnIndexThatAStreamFilledStays checks the reason where no end of the session has recorded sequence numbers.
func TestUndo_AnIndexThatAStreamFilledStays(t *testing.T) {
	for _, endless := range []bool{true, false} {
		on, r, _ := migrated(t)
		u := undoing(on, r)
		u.Endless = endless
		all, err := u.List(t.Context())
		must(t, err)
		found := false
		for _, e := range all {
			if e.Kind != rollback.Index {
				continue
			}
			found = true
			if e.State != rollback.Refused || strings.Contains(e.Reason, "consumes a topic") != endless || strings.Contains(e.Reason, "run the migration to its end") == endless || !strings.Contains(e.Reason, "DELETE /") {
				t.Errorf("endless %v: %s: %s", endless, e.State, e.Reason)
			}
		}
		if !found {
			t.Error("no index is listed")
		}
	}
}

// stream puts a data stream of a session that ended on a cluster.
func stream(t *testing.T, on *cluster, l *rollback.Ledger) {
	t.Helper()
	must(t, l.Intend(t.Context(), rollback.DataStream, "s"))
	backing(on, 3, ".ds-s-1")
	must(t, l.Confirm(t.Context(), rollback.DataStream, "s"))
	must(t, l.Seal(t.Context()))
}

// backing puts data stream s with backing indices of one shard there.
func backing(on *cluster, seq int, names ...string) {
	var all, numbers []string
	for _, name := range names {
		on.index(name, "u"+name, "", "", seq)
		on.answers["/"+name] = strings.ReplaceAll(on.answers["/"+name], "@index/"+name, "@data-stream/s")
		all, numbers = append(all, fmt.Sprintf(`{"index_name":%q}`, name)), append(numbers, fmt.Sprintf(`%q:{"shards":{"0":[{"routing":{"primary":true},"seq_no":{"max_seq_no":%d}}]}}`, name, seq))
	}
	on.answers["/_data_stream/s"] = `{"data_streams":[{"name":"s","indices":[` + strings.Join(all, ",") + `]}]}`
	on.answers["/s/_stats/docs"] = `{"indices":{` + strings.Join(numbers, ",") + `}}`
}

func TestUndoOfADataStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*cluster)
		state  string
		reason string
	}{
		{"as the migration left it", func(*cluster) {}, rollback.Removed, ""},
		{"written to", func(on *cluster) { backing(on, 5, ".ds-s-1") }, rollback.Refused, "written to after the migration: 2 operations in shard .ds-s-1/0"},
		{"rolled over", func(on *cluster) { backing(on, 3, ".ds-s-1", ".ds-s-2") }, rollback.Refused, "it has a shard .ds-s-2/0 that it did not have"},
		{"its first index was deleted after a rollover", func(on *cluster) { backing(on, 3, ".ds-s-2") }, rollback.Refused, "another one of that name"},
		{"it is gone", func(on *cluster) { delete(on.answers, "/_data_stream/s") }, rollback.Gone, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, r := &cluster{answers: map[string]string{}}, coordinator(t)
			stream(t, on, ledger(on, r))
			c.change(on)
			all, err := undoing(on, r).Run(t.Context())
			must(t, err)
			if len(all) != 1 || all[0].State != c.state || !strings.Contains(all[0].Reason, c.reason) || c.state == rollback.Refused && !strings.Contains(all[0].Reason, "DELETE /_data_stream/s") && !strings.Contains(c.reason, "another one") {
				t.Errorf("%+v", all)
			}
			if want := map[bool]int{true: 1}[c.state == rollback.Removed]; len(on.deleted) != want {
				t.Errorf("removed %q", on.deleted)
			}
		})
	}
}

// TestUndo_AStreamWithoutItsMarkIsListed: a process died between the creation of a data stream and its mark. It stays, and the list
// names it, also after another run of the migration.
func TestUndo_AStreamWithoutItsMarkIsListed(t *testing.T) {
	on, r := &cluster{answers: map[string]string{}}, coordinator(t)
	l := ledger(on, r)
	must(t, l.Intend(t.Context(), rollback.DataStream, "s"))
	backing(on, -1, ".ds-s-1")
	on.answers["/.ds-s-1"] = strings.ReplaceAll(on.answers["/.ds-s-1"], "@data-stream/s", "none")
	for range 2 {
		all, err := undoing(on, r).Run(t.Context())
		must(t, err)
		if len(all) != 1 || all[0].State != rollback.Refused || !strings.Contains(all[0].Reason, "DELETE /_data_stream/s") || len(on.deleted) > 0 {
			t.Errorf("%+v, removed %q", all, on.deleted)
		}
		must(t, l.Decide(t.Context(), rollback.DataStream, "s"))
	}
}

// TestUndo_APipelineOfItsStreamGoesWithIt: in the run that removes the data stream.
func TestUndo_APipelineOfItsStreamGoesWithIt(t *testing.T) {
	on, r := &cluster{answers: map[string]string{"/_ingest/pipeline/p": `{"p":{"description":"@@pipeline/p"}}`}}, coordinator(t)
	l := ledger(on, r)
	must(t, l.Intend(t.Context(), "pipeline", "p"))
	must(t, l.Confirm(t.Context(), "pipeline", "p"))
	stream(t, on, l)
	on.answers["/_all/_settings/index.default_pipeline,index.final_pipeline"] = `{".ds-s-1":{"settings":{"index.default_pipeline":"p"}}}`
	all, err := undoing(on, r).Run(t.Context())
	must(t, err)
	if got := states(all); !slices.Equal(got, []string{"data-stream s removed", "pipeline p removed"}) {
		t.Errorf("%q", got)
	}
}

func TestASettingOfTheSessionThatOthersChangedIsRefusedByName(t *testing.T) {
	on, r, l := migrated(t)
	ended(t, on, l)
	u := undoing(on, r)
	was := "1s"
	u.Tuned = func(context.Context) iter.Seq2[session.Tuned, error] {
		return func(yield func(session.Tuned, error) bool) {
			for _, name := range []string{"a", "b", "other", "kept"} {
				if !yield(session.Tuned{Target: name, UUID: "u" + name, Was: map[string]*string{"index.refresh_interval": &was}, Set: map[string]string{"index.refresh_interval": "-1"}}, nil) {
					return
				}
			}
		}
	}
	u.Restore = func(context.Context) (map[string]string, error) {
		return map[string]string{"a index.refresh_interval": "changed by others and left", "other index.refresh_interval": "changed by others and left"}, nil
	}
	all, err := u.Run(t.Context())
	must(t, err)
	got := map[string]rollback.Entry{}
	for _, e := range all {
		got[e.Kind+" "+e.Name] = e
	}
	if e := got["setting other index.refresh_interval"]; e.State != rollback.Refused || !strings.Contains(e.Reason, "changed by others") || *e.Was != "1s" || e.Set != "-1" {
		t.Errorf("%+v", e)
	}
	if e := got["setting kept index.refresh_interval"]; e.State != rollback.Restored {
		t.Errorf("%+v", e)
	}
	// What becomes of the settings of an index that is removed does not matter.
	for _, name := range []string{"a", "b"} {
		if e := got["setting "+name+" index.refresh_interval"]; e.State != rollback.Removed || e.Reason != "" || got["index "+name].State != rollback.Removed {
			t.Errorf("%+v, of %+v", e, got["index "+name])
		}
	}
}
