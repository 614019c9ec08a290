package stories

import (
	"strings"
	"testing"
)

// TestPlan_KnowsItsSession plans a migration before it, in the middle of it, after it, and with another session: documents of its own
// session do not stop it.
func TestPlan_KnowsItsSession(t *testing.T) {
	w := newWorld(t)
	const exists, stops = "the session a exists and has 3 target indices", "REFUSED: the target has documents already"
	var options []string
	plan := func(session string, code int, says string, without ...string) {
		t.Helper()
		r := w.run(kill{}, "rfsd", append(append(append([]string{"plan"}, w.at(session)...), w.source()...), options...)...)
		if r.code != code || !strings.Contains(r.output, says) {
			t.Errorf("exit %d, not %d, or not %q:\n%s", r.code, code, says, r.output)
		}
		for _, x := range without {
			if strings.Contains(r.output, x) {
				t.Errorf("%q:\n%s", x, r.output)
			}
		}
	}
	plan("a", 0, "orders", "the session a exists", stops)
	migrate := append(append([]string{"migrate"}, w.at("a")...), append(w.source(), "--documents-per-bulk-request", "1")...)
	if r := w.run(kill{at: 60}, "rfsd", migrate...); r.code != -1 {
		t.Fatalf("exit %d before it was killed:\n%s", r.code, r.output)
	}
	plan("a", 0, exists, stops)
	plan("b", 7, stops, "the session b exists")
	if r := w.run(kill{}, "rfsd", migrate...); r.code != 0 {
		t.Fatalf("exit %d:\n%s", r.code, r.output)
	}
	plan("a", 0, exists, stops)
	options = []string{"--index-exclude", "weblogs"}
	plan("a", 7, `this session belongs to another migration: index-exclude was "", is "weblogs"`, exists)
	plan("b", 7, stops, "another migration")
}

// TestUndone_APartIsLeft: the records of what rfsctl undo has left are needed for the next one.
func TestUndone_APartIsLeft(t *testing.T) {
	w := newWorld(t)
	if r := w.run(kill{}, "rfsd", append(append([]string{"migrate"}, w.at("a")...), w.source()...)...); r.code != 0 {
		t.Fatalf("exit %d:\n%s", r.code, r.output)
	}
	w.cluster.Do("PUT", "/orders/_doc/mine", `{}`)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"undo", "--yes"}, 7, "it was written to after the migration"},
		{[]string{"status"}, 0, "rfsctl created lists the rest"},
		{[]string{"cleanup"}, 1, "rfsctl undo has left 1 object"},
		{[]string{"created"}, 0, "orders"},
		{[]string{"cleanup", "--force"}, 0, "removed "},
	} {
		if r := w.run(kill{}, "rfsctl", append(c.args, w.at("a")...)...); r.code != c.code || !strings.Contains(r.output, c.says) {
			t.Errorf("%s: exit %d:\n%s", c.args[0], r.code, r.output)
		}
	}
}

// TestUndone_BeforeItWasComplete: when nothing is left of a migration that was killed, its records need no --force.
func TestUndone_BeforeItWasComplete(t *testing.T) {
	w := newWorld(t)
	migrate := append(append([]string{"migrate"}, w.at("a")...), append(w.source(), "--documents-per-bulk-request", "1")...)
	if r := w.run(kill{at: 60}, "rfsd", migrate...); r.code != -1 {
		t.Fatalf("exit %d before it was killed:\n%s", r.code, r.output)
	}
	for _, name := range []string{"catalogue", "orders", "weblogs"} {
		w.cluster.Do("DELETE", "/"+name, "")
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"cleanup"}, 1, "is not complete"},
		{[]string{"undo", "--yes"}, 0, "gone"},
		{[]string{"cleanup"}, 0, "removed "},
	} {
		if r := w.run(kill{}, "rfsctl", append(c.args, w.at("a")...)...); r.code != c.code || !strings.Contains(r.output, c.says) {
			t.Errorf("%s: exit %d:\n%s", c.args[0], r.code, r.output)
		}
	}
}

// TestUndone_EveryCommandSaysIt undoes a session: no later command reports its result as if it were there.
func TestUndone_EveryCommandSaysIt(t *testing.T) {
	w := newWorld(t)
	migrate := append(append([]string{"migrate"}, w.at("a")...), w.source()...)
	if r := w.run(kill{}, "rfsd", migrate...); r.code != 0 {
		t.Fatalf("exit %d:\n%s", r.code, r.output)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"rfsctl", append([]string{"undo", "--yes"}, w.at("a")...), 0, "removed"},
		{"rfsctl", append([]string{"status", "--exit-status"}, w.at("a")...), 4, "undone"},
		{"rfsd", migrate, 1, "removed by `rfsctl undo`"},
		{"rfsd", append(append([]string{"plan"}, w.at("a")...), w.source()...), 7, "removed by `rfsctl undo`"},
		{"rfsd", append(append([]string{"run", "--one-machine", "--data-dir", t.TempDir()}, w.at("a")...), w.source()...), 1, "removed by `rfsctl undo`"},
		{"rfsctl", append([]string{"undo"}, w.at("a")...), 0, "nothing is recorded"},
	} {
		if r := w.run(kill{}, c.name, c.args...); r.code != c.code || !strings.Contains(r.output, c.says) || strings.Contains(r.output, "safe to write") || strings.Contains(r.output, "the session a exists") {
			t.Errorf("%s %s: exit %d:\n%s", c.name, c.args[0], r.code, r.output)
		}
	}
}
