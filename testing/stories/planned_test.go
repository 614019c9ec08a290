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
	plan := func(session string, code int, says string, without ...string) {
		t.Helper()
		r := w.run(kill{}, "rfsd", append(append([]string{"plan"}, w.at(session)...), w.source()...)...)
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
}
