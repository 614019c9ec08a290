package truth

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestCompareFindsEveryKindOfDifference(t *testing.T) {
	key := func(id string) Key { return Key{Index: "i", ID: id} }
	want := Docs{
		key("same"): json.RawMessage(`{"a": 1}`), key("mini"): json.RawMessage(`{"a":1}`),
		key("value"): json.RawMessage(`{"a":1,"b":2}`), key("diff"): json.RawMessage(`{"a":1.0}`),
		key("gone"): json.RawMessage(`{}`), key("none"): nil,
	}
	got := Docs{
		key("same"): json.RawMessage(`{"a": 1}`), key("mini"): json.RawMessage(`{"a": 1}`),
		key("value"): json.RawMessage(`{"b":2,"a":1}`), key("diff"): json.RawMessage(`{"a":1}`),
		key("more"): json.RawMessage(`{}`), key("none"): json.RawMessage(`{}`),
	}
	d := Compare(want, got)
	for _, c := range []Class{Equal, Minified, Values, NoTruth, Different, Missing, Extra} {
		if d.Of("i", c) != 1 {
			t.Errorf("%v: %d", c, d.Of("i", c))
		}
	}
	if d.Faults() == "" {
		t.Error("no faults reported")
	}
}

func TestExportWithATornLastLineIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "0-0.ndjson"), []byte("{\"index\":{\"_index\":\"i\",\"_id\":\"1\"}}\n{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadExport(dir); err == nil {
		t.Fatal("accepted")
	}
}

func TestFractionsAreComparedByValueAndKind(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"x":[1.0E-7]}`, `{"x":[1e-07]}`, true}, {`{"x":1.50}`, `{"x":1.5}`, true}, {`{"x":1.0}`, `{"x":1}`, false},
		{`{"x":0.1}`, `{"x":0.10000000000000001}`, false}, {`{"x":12345678901234567890}`, `{"x":12345678901234567891}`, false},
	} {
		if got := sameValues([]byte(c.a), []byte(c.b)); got != c.same {
			t.Errorf("%s and %s: same is %v", c.a, c.b, got)
		}
	}
}

func TestAnExactLineStandsForASourceWithComments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.ndjson")
	if err := os.WriteFile(file, []byte(`{"_index":"i","_id":"1","_line":"{/* c */}"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	docs, err := Load(false, file)
	if err != nil || string(docs[Key{Index: "i", ID: "1"}]) != "{/* c */}" {
		t.Errorf("got %q, %v", docs, err)
	}
}
