package stories

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestImport_ItsIndicesVanish: an index is deleted after an import that found its documents there, and perhaps created again. The same
// command says so instead of reporting a complete import, and a new session sends them.
func TestImport_ItsIndicesVanish(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(map[bool]string{false: "deleted", true: "deleted and created again"}[again], func(t *testing.T) {
			w := newWorld(t)
			migrate("a")(w)
			export(w)
			load := func(session string, code int, says string) {
				t.Helper()
				args := []string{"import", "--from", filepath.Join(w.dir, "export"), "--create-indices", "--existing-documents", "keep"}
				if r := w.run(kill{}, "rfsd", append(args, w.at(session)...)...); r.code != code || !strings.Contains(r.output, says) {
					t.Errorf("import of session %s: exit %d, want %d and %q:\n%s", session, r.code, code, says, r.output)
				}
			}
			load("c", 0, "kept 159")
			load("c", 0, "nothing was left to do")
			w.operator(http.MethodDelete, "/orders", "")
			if again {
				w.operator(http.MethodPut, "/orders", "{}")
			}
			load("c", 7, "no longer has orders")
			load("c", 7, "no longer has orders")
			load("d", 0, "indexed 53, kept 106")
		})
	}
}
