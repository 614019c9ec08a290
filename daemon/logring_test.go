package daemon

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTheLogRingKeepsTheLastLinesAsJSON(t *testing.T) {
	r := NewLogRing(3)
	if _, err := r.Write([]byte("{\"n\":1}\n{\"n\":2}\n\n{\"n\":3}\n")); err != nil {
		t.Fatal(err)
	}
	r.Add([]byte("panic: \"x\""))
	r.Add([]byte(strings.Repeat("y", 2*maxLogLine)))
	got := r.Last(0)
	if len(got) != 3 || string(got[0]) != `{"n":3}` || !strings.Contains(string(got[1]), `panic: \"x\"`) || len(got[2]) > maxLogLine+200 {
		t.Errorf("%s", got)
	}
	for _, line := range got {
		if !json.Valid(line) {
			t.Errorf("%s", line)
		}
	}
	if len(r.Last(1)) != 1 {
		t.Error("the limit is not kept")
	}
}
