package stories

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefusedAlias_IsNamedUntilItIsSet has another index as the write index of an alias: the plan and every command after the migration
// name it, until a repeated migration has set it.
func TestRefusedAlias_IsNamedUntilItIsSet(t *testing.T) {
	w := newWorld(t)
	w.operator(http.MethodPut, "/older", `{"aliases":{"sales":{"is_write_index":true}}}`)
	rules := filepath.Join(w.dir, "rules.toml")
	if err := os.WriteFile(rules, []byte("[[index]]\nmatch = \"orders\"\nset = [{ path = \"/aliases/sales/is_write_index\", value = true }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	from := append(w.source(), "--rules", rules)
	run := func(code int, says, name, verb string, more ...string) {
		t.Helper()
		r := w.run(kill{}, name, append(append([]string{verb}, w.at("a")...), more...)...)
		if r.code != code || says == "" && strings.Contains(r.output, "the alias sales") || !strings.Contains(r.output, says) {
			t.Errorf("%s %s: exit %d, not %d, or it does not name %q:\n%s", name, verb, r.code, code, says, r.output)
		}
	}
	const refused = "refuses the alias sales of orders"
	run(7, "the alias sales of index orders", "rfsd", "plan", from...)
	run(7, refused, "rfsd", "migrate", from...)
	run(7, refused, "rfsctl", "status", "--exit-status")
	run(0, refused, "rfsd", "verify", from...)
	run(7, refused, "rfsd", "migrate", from...)
	w.operator(http.MethodDelete, "/older", "")
	run(0, "", "rfsd", "migrate", from...)
	run(0, "", "rfsctl", "status", "--exit-status")
	run(0, "", "rfsd", "verify", from...)
}
