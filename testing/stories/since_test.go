package stories

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestVerify_SinceARound: a comparison with the snapshot of any round recognizes what applications wrote to the target after the last one.
func TestVerify_SinceARound(t *testing.T) {
	w := newWorld(t)
	source := []string{"--coordinator-file", filepath.Join(w.dir, "since.db"), "--target-host", w.url, "--repo-uri", historyRepository(t), "--index-allowlist", "grows"}
	run := func(code int, command string, more ...string) string {
		t.Helper()
		r := w.run(kill{}, "rfsd", slices.Concat([]string{command}, source, more)...)
		if r.code != code || strings.Contains(r.output, "not recognized") {
			t.Fatalf("%s %q: exit %d:\n%s", command, more, r.code, r.output)
		}
		return r.output
	}
	for _, snapshot := range []string{"snap-1", "snap-3"} {
		run(0, "follow", "--once", "--snapshot-name", snapshot)
	}
	run(0, "verify", "--snapshot-name", "snap-3", "--strict")
	run(0, "verify", "--changed", "--strict")
	w.operator(http.MethodPut, "/grows/_doc/written-later", `{}`)
	output := run(0, "verify", "--snapshot-name", "snap-3", "--output", "json")
	if !strings.Contains(output, `"changed_since": 1`) || strings.Contains(output, "past this snapshot") {
		t.Errorf("the last round:\n%s", output)
	}
	if output := run(8, "verify", "--snapshot-name", "snap-1"); !strings.Contains(output, "past this snapshot") {
		t.Errorf("an earlier round:\n%s", output)
	}
}

// TestFollow_NoSession: commands for a session that is followed do not create one.
func TestFollow_NoSession(t *testing.T) {
	w := newWorld(t)
	history := historyRepository(t)
	file := filepath.Join(w.dir, "never.db")
	for name, args := range map[string][]string{
		"the end":                {"follow", "--finish"},
		"what the round changed": {"verify", "--changed"},
	} {
		r := w.run(kill{}, "rfsd", append(args, "--coordinator-file", file, "--target-host", w.url, "--repo-uri", history)...)
		if _, err := os.Stat(file); r.code != 1 || !strings.Contains(r.output, "does not exist") || err == nil {
			t.Errorf("%s: exit %d, file: %v\n%s", name, r.code, err, r.output)
		}
	}
}
