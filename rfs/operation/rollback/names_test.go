package rollback

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// TestUndo_ANameThatIsAPatternRemovesNothing: a record of the store is input, whatever a cluster answers to its name.
func TestUndo_ANameThatIsAPatternRemovesNothing(t *testing.T) {
	kinds := []string{Index, DataStream, string(metadata.LegacyTemplate), string(metadata.ComponentTemplate), string(metadata.IndexTemplate),
		string(metadata.Pipeline), string(metadata.Script), string(metadata.Policy), Setting, Alias, "unknown"}
	for _, name := range []string{"*", "_all", "a,b", "-a", "%2A", "", "?", "<a>", "..", "a"} {
		for _, state := range []string{session.CreationIntended, session.CreationDone} {
			on, r := &cluster{answers: map[string]string{}}, coordinator(t)
			all := `{"a":{"order":1},"b":{"order":1}}` // the objects that the name stands for
			on.any = all
			for _, kind := range kinds {
				_, err := session.Of(r).ChangeCreation(t.Context(), kind, name, func(c session.Creation, now time.Time) (session.Creation, bool) {
					c.State, c.Since = state, now
					return c, true
				})
				must(t, err)
			}
			listed, err := undoing(on, r).Run(t.Context())
			must(t, err)
			for _, e := range listed {
				if e.State != Refused && e.State != Gone {
					t.Errorf("%s %q %s: %s", e.Kind, e.Name, state, e.State)
				}
			}
			if len(on.deleted) > 0 {
				t.Errorf("removed %q", on.deleted)
			}
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
