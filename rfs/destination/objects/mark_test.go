package objects_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// TestMark_OnWhatWasCreatedWithIt: for every kind, with what the user had in its place, and on nothing else.
func TestMark_OnWhatWasCreatedWithIt(t *testing.T) {
	mark := objects.Mark{Session: "move", Token: "T0"}
	others := []objects.Mark{{}, {Session: "move"}, {Session: "move", Token: "T1"}, {Session: "other", Token: "T0"}}
	for _, c := range []struct {
		kind, body string
		kept       string // what of the user has to be in the result
		inner      string // key below which the object is that the target answers with
	}{
		{objects.IndexMark, `{}`, "", ""},
		{objects.IndexMark, `{"settings":{"a":1},"mappings":{"_meta":{"user":1,"rfsd":{"session":"old"}},"properties":{}}}`, `"user":1`, ""},
		{objects.ScratchMark, `{"mappings":{"_meta":7}}`, "", ""},
		{string(metadata.LegacyTemplate), `{"index_patterns":["x"]}`, `"index_patterns":["x"]`, ""},
		{string(metadata.ComponentTemplate), `{"template":{},"_meta":{"user":1}}`, `"user":1`, ""},
		{string(metadata.IndexTemplate), `{"index_patterns":["x"]}`, `"index_patterns":["x"]`, ""},
		{string(metadata.Pipeline), `{"processors":[]}`, `"processors":[]`, ""},
		{string(metadata.Pipeline), `{"description":"of the user rfsd:{\"session\":\"old\"}"}`, `of the user rfsd:{`, ""},
		{string(metadata.Policy), `{"policy":{"description":"converted"}}`, "converted rfsd:{", "policy"},
		{string(metadata.StatePolicy), `{"policy":{"description":"keeps"}}`, "keeps rfsd:{", "policy"},
	} {
		body, err := mark.Put(c.kind, "a", json.RawMessage(c.body))
		if err != nil || !strings.Contains(strings.ReplaceAll(string(body), `\"`, `"`), c.kept) || strings.Contains(string(body), "old") {
			t.Errorf("%s %s: %s, %v", c.kind, c.body, body, err)
		}
		if c.inner != "" {
			var all map[string]json.RawMessage
			if err := json.Unmarshal(body, &all); err != nil {
				t.Fatal(err)
			}
			body = all[c.inner]
		}
		for _, x := range []struct {
			mark objects.Mark
			want string
		}{{mark, "move"}, {objects.Mark{Session: "other", Token: "T0"}, "move"}, {objects.Mark{Token: "T0"}, "move"}, {objects.Mark{Session: "move", Token: "T1"}, ""}, {objects.Mark{Session: "other"}, ""}} {
			if got := x.mark.OtherName(c.kind, "a", body); got != x.want {
				t.Errorf("%s: %+v: the mark names the session %q, want %q", c.kind, x.mark, got, x.want)
			}
		}
		if !mark.Matches(c.kind, "a", body) {
			t.Errorf("%s: not on %s", c.kind, body)
		}
		for _, other := range others {
			if other.Matches(c.kind, "a", body) {
				t.Errorf("%s: %+v on %s", c.kind, other, body)
			}
		}
		if mark.Matches(c.kind, "b", body) || mark.Matches("data-stream", "a", body) || mark.Matches(c.kind, "a", json.RawMessage(c.body)) {
			t.Errorf("%s: on an object of another name, of another kind or without it", c.kind)
		}
	}
	if b, err := mark.Put(string(metadata.Script), "a", json.RawMessage(`{"script":{}}`)); err != nil || string(b) != `{"script":{}}` || objects.CanCarry(string(metadata.Script)) {
		t.Errorf("a script: %s, %v", b, err)
	}
}
