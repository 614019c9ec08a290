package rollback_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// TestUndo_ANameThatIsAPatternRemovesNothing: a record of the store is input, whatever a cluster answers to its name.
func TestUndo_ANameThatIsAPatternRemovesNothing(t *testing.T) {
	kinds := []string{rollback.Index, rollback.DataStream, string(metadata.LegacyTemplate), string(metadata.ComponentTemplate), string(metadata.IndexTemplate),
		string(metadata.Pipeline), string(metadata.Script), string(metadata.Policy), string(metadata.StatePolicy), rollback.Setting, rollback.Alias, "unknown"}
	for _, name := range []string{"*", "_all", "a,b", "-a", "%2A", "", "?", "<a>", "..", "a"} {
		for _, state := range []string{session.CreationIntended, session.CreationDone} {
			on, r := &cluster{answers: map[string]string{}}, coordinator(t)
			all := `{"a":{"order":1},"b":{"order":1}}` // the objects that the name stands for
			on.any = all
			for _, kind := range kinds {
				_, err := session.CreatedOf(r).Change(t.Context(), kind, name, func(c session.Creation, now time.Time) (session.Creation, bool) {
					c.State, c.Since = state, now
					return c, true
				})
				must(t, err)
			}
			listed, err := undoing(on, r).Run(t.Context())
			must(t, err)
			for _, e := range listed {
				if e.State != rollback.Refused && e.State != rollback.Gone {
					t.Errorf("%s %q %s: %s", e.Kind, e.Name, state, e.State)
				}
			}
			if len(on.deleted) > 0 {
				t.Errorf("removed %q", on.deleted)
			}
		}
	}
}

// TestUndo_PoliciesOfOthersStay has records name policies of index state management that others created, or that an earlier session
// of the same name did. Only the policy with the mark of this session goes.
func TestUndo_PoliciesOfOthersStay(t *testing.T) {
	r := coordinator(t)
	mark := func(session, kind, name, token string) string {
		of, err := json.Marshal(map[string]string{"session": session, "kind": kind, "name": name, "mark": token})
		must(t, err)
		text, err := json.Marshal("keeps logs rfsd:" + string(of))
		must(t, err)
		return string(text)
	}
	policy, token := string(metadata.Policy), sessionMark.Token
	descriptions := map[string]string{
		"own": mark("s", policy, "own", token), "plain": `"keeps logs"`, "none": `null`, "earlier": mark("s", policy, "earlier", "former"),
		"other": mark("x", policy, "other", token), "copied": mark("s", policy, "own", token), "template": mark("s", "pipeline", "template", token), "torn": `"rfsd:{"`,
	}
	for _, state := range []string{session.CreationIntended, session.CreationDone} {
		on := &cluster{answers: map[string]string{}}
		for name, description := range descriptions {
			on.answers["/_plugins/_ism/policies/"+name] = fmt.Sprintf(`{"_id":%q,"_version":1,"policy":{"policy_id":%[1]q,"description":%s,"states":[]}}`, name, description)
			_, err := session.CreatedOf(r).Change(t.Context(), policy, name, func(c session.Creation, now time.Time) (session.Creation, bool) {
				c.State, c.Since = state, now
				return c, true
			})
			must(t, err)
		}
		listed, err := undoing(on, r).List(t.Context())
		must(t, err)
		if len(on.deleted) > 0 {
			t.Errorf("%s: the list removed %q", state, on.deleted)
		}
		for _, e := range listed {
			if may := e.Name == "own"; may != (e.State == rollback.Created) {
				t.Errorf("%s: %s is %s: %s", state, e.Name, e.State, e.Reason)
			}
		}
		_, err = undoing(on, r).Run(t.Context())
		must(t, err)
		if want := []string{"/_plugins/_ism/policies/own"}; !slices.Equal(on.deleted, want) {
			t.Errorf("%s: removed %q, want %q", state, on.deleted, want)
		}
	}
}

// anything answers to every request as to one whose name stands for several objects.
func (c *cluster) anything(method, path string) (int, []byte, error) {
	if method == http.MethodDelete {
		c.deleted = append(c.deleted, path)
	}
	return http.StatusOK, fmt.Append(nil, c.any), nil
}
