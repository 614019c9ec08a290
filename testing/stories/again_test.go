package stories

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
)

// historyRepository returns a repository with the snapshots snap-1 and snap-3 of a followed cluster.
func historyRepository(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../fixtures/7.10.2-history")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFollow_ANewSessionOfTheSameName follows a cluster again after its session was removed: what the former rounds left is not taken for
// rounds of the new session, whose changes would not be sent.
func TestFollow_ANewSessionOfTheSameName(t *testing.T) {
	history := historyRepository(t)
	type place struct {
		options, round []string // the state of the session, and of its round 1
		lose           string   // the directory or file of the session
	}
	for name, at := range map[string]func(t *testing.T, w *world) place{
		"a file": func(_ *testing.T, w *world) place {
			file := filepath.Join(w.dir, "again.db")
			return place{[]string{"--session-name", "again", "--coordinator-file", file}, []string{"--coordinator-file", file + "-round-1"}, file}
		},
		"a bucket": func(t *testing.T, _ *world) place {
			dir, state := bucketState(t)
			return place{append(slices.Clone(state), "--session-name", "again"), append(slices.Clone(state), "--session-name", "again-round-1"),
				filepath.Join(dir, "state", s3cms.Folder("again"))}
		},
	} {
		for _, lost := range []bool{false, true} {
			t.Run(map[bool]string{false: "cleanup", true: "the state is lost"}[lost]+", "+name, func(t *testing.T) {
				w := newWorld(t)
				at := at(t, w)
				do := func(code int, says, program, command string, more ...string) {
					t.Helper()
					if r := w.run(kill{}, program, slices.Concat([]string{command}, more)...); r.code != code || !strings.Contains(r.output, says) {
						t.Errorf("%s %s: exit %d:\n%s", command, strings.Join(more[len(more)-2:], " "), r.code, r.output)
					}
				}
				target := append(slices.Clone(at.options), "--target-host", w.url)
				source := append(slices.Clone(target), "--repo-uri", history, "--index-allowlist", "grows")
				follow := func(code int, says, snapshot string) {
					t.Helper()
					do(code, says, "rfsd", "follow", append(slices.Clone(source), "--once", "--snapshot-name", snapshot)...)
				}
				follow(0, "round 0", "snap-1")
				follow(0, "round 1", "snap-3")
				if lost {
					if err := os.RemoveAll(at.lose); err != nil {
						t.Fatal(err)
					}
					w.cluster.Do("DELETE", "/grows", "")
				} else {
					do(0, "removed", "rfsctl", "undo", append(slices.Clone(target), "--yes")...)
					do(0, "removed", "rfsctl", "cleanup", at.options...)
				}
				follow(0, "round 0", "snap-1")
				if lost {
					follow(1, "is of an earlier chain of rounds", "snap-3")
					do(0, "removed", "rfsctl", "cleanup", append(slices.Clone(at.round), "--force")...)
				}
				follow(0, "round 1: snapshot snap-3 since snap-1", "snap-3")
				do(0, "equal", "rfsd", "verify", append(slices.Clone(source), "--snapshot-name", "snap-3")...)
			})
		}
	}
}

// TestFollow_FirstContact: what does not answer may be the wrong address, as for rfsd migrate.
func TestFollow_FirstContact(t *testing.T) {
	history := historyRepository(t)
	const nothing = "http://127.0.0.1:1"
	w := newWorld(t)
	for name, args := range map[string][]string{
		"one round":       {"--once", "--snapshot-name", "snap-1", "--target-host", nothing},
		"each round":      {"--source-host", nothing, "--target-host", nothing},
		"the end":         {"--finish", "--target-host", nothing},
		"the coordinator": {"--once", "--snapshot-name", "snap-1", "--target-host", w.url, "--coordinator-host", nothing},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.run(kill{}, "rfsd", append([]string{"follow", "--repo-uri", history, "--session-name", "first"}, args...)...)
			if r.code != 1 || !strings.Contains(r.output, "does not answer") {
				t.Errorf("exit %d:\n%s", r.code, r.output)
			}
		})
	}
}
