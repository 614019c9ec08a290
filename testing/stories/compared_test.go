package stories

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestComparison_GoesOnAfterKills kills comparisons of a session with a target that was written to, at several of their requests, before
// and after they have their effect. The next one continues and reports the same.
func TestComparison_GoesOnAfterKills(t *testing.T) {
	for _, c := range []struct {
		name  string
		kills []kill
	}{
		{"one", []kill{{25, false}}},
		{"three", []kill{{20, false}, {25, true}, {30, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			parallel(t)
			w := newWorld(t)
			w.step(migrate("a"))
			w.operator(http.MethodPut, "/orders/_doc/extra", `{}`)
			args := append([]string{"verify", "--slots", "1", "--output", "json"}, append(w.at("a"), w.source()...)...)
			want := comparedIndices(w.run(kill{}, "rfsd", args...).output)
			for _, k := range c.kills {
				if r := w.run(k, "rfsd", args...); r.code != -1 {
					t.Errorf("it was not killed at request %d:\n%s", k.at, r.output)
				}
			}
			r := w.run(kill{}, "rfsd", args...)
			if got := comparedIndices(r.output); got != want || want == "" || !strings.Contains(r.output, "comparison continues") {
				t.Errorf("exit %d\n%s\nwant\n%s", r.code, r.output, want)
			}
		})
	}
}

var indicesOfReport = regexp.MustCompile(`"indices":.*`)

// comparedIndices returns the part of a report that does not depend on the time.
func comparedIndices(output string) string { return indicesOfReport.FindString(output) }
