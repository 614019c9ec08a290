package redrive

import (
	"context"
	"reflect"
	"testing"
)

// TestRedrive_LinesForOtherIndicesStay has lines that name indices to which the session sent nothing, or no id.
func TestRedrive_LinesForOtherIndicesStay(t *testing.T) {
	dir := t.TempDir()
	unnamed := refusal("logs", "", 5)
	write(t, dir, "w", refusal("logs", "a", 1), refusal("payroll", "1", 2), refusal(".rfs_control_x", "intent", 3), refusal("payroll", "2", 4), unnamed)
	c := &cluster{}
	r := redriveOf(Folder(dir), c)
	asked := map[string]int{}
	r.Permit = func(_ context.Context, index string) (string, error) {
		if asked[index]++; index == "logs" {
			return "", nil
		}
		return "not one of the session's", nil
	}
	report, err := r.Run(t.Context())
	if want := "5 documents: 1 indexed, 4 failed, 0 filtered, 0 duplicates, 0 remaining, complete true"; err != nil || numbers(report) != want {
		t.Errorf("%s, %v; want %s", numbers(report), err, want)
	}
	if want := []string{`index logs/a "" "" {"id":"a"}`}; !reflect.DeepEqual(c.got, want) {
		t.Errorf("%q, want %q", c.got, want)
	}
	if got := held(t, dir)["w.ndjson"]; len(got) != 4 {
		t.Errorf("the file holds %q", got)
	}
	if want := map[string]int{"logs": 1, "payroll": 1, ".rfs_control_x": 1}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	first := report.Classes[0]
	if first.Index != "payroll" || first.Class != "index_not_permitted" || first.Count != 2 || first.Example != "not one of the session's" {
		t.Errorf("%+v", first)
	}
}
