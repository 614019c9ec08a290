// Package verbs_test holds the scripts behind the Makefile's verbs to what they promise.
package verbs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSkippedTestsAreListedByNameAndReason(t *testing.T) {
	const race = `=== RUN   TestServer
    server_test.go:38: -short: no real servers
--- SKIP: TestServer (0.00s)
=== RUN   TestBoth
=== RUN   TestBoth/real
    both_test.go:9: -short: no real servers
=== RUN   TestBoth/fake
--- PASS: TestBoth (0.00s)
    --- SKIP: TestBoth/real (0.00s)
    --- PASS: TestBoth/fake (0.00s)
PASS
ok  	github.com/x/y/rfs/one	0.1s
=== RUN   TestServer
    other_test.go:3: flock is not installed
--- SKIP: TestServer (0.00s)
ok  	github.com/x/y/rfs/two	0.1s
`
	const e2e = `=== RUN   TestServer
    server_test.go:40: 3 documents
--- PASS: TestServer (1.00s)
ok  	github.com/x/y/rfs/one	1.1s
`
	for _, c := range []struct {
		name string
		logs []string
		want string
	}{
		{"one log", []string{race}, `v: 3 tests did not run:
  -short: no real servers:
    rfs/one TestServer
    rfs/one TestBoth/real
  flock is not installed:
    rfs/two TestServer
`},
		{"a test that passed in another log ran", []string{race, e2e}, `v: 2 tests did not run:
  -short: no real servers:
    rfs/one TestBoth/real
  flock is not installed:
    rfs/two TestServer
`},
		{"nothing skipped", []string{e2e}, "v: every test ran\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"v"}
			for _, log := range c.logs {
				name := filepath.Join(t.TempDir(), "log")
				if err := os.WriteFile(name, []byte(log), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, name)
			}
			out, err := exec.CommandContext(t.Context(), filepath.Join("..", "skipped.sh"), args...).CombinedOutput()
			if err != nil || string(out) != c.want {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// goTest runs gotest.sh with a go command that prints a log and exits with 1, and returns what it printed.
func goTest(t *testing.T, log string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "go")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ncat '"+dir+"/log'\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "gotest.sh"), "v", "./...")
	cmd.Env = append(os.Environ(), "GO="+program, "RFSD_LOGS="+dir)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("%v, not exit code 1", err)
	}
	return string(out)
}

func TestFailedTestsAreShownWithTheirLines(t *testing.T) {
	const two = `=== RUN   TestGood
    good_test.go:3: of no interest
--- PASS: TestGood (0.00s)
=== RUN   TestBoth
=== RUN   TestBoth/a
=== PAUSE TestBoth/a
=== RUN   TestBoth/b
=== PAUSE TestBoth/b
=== CONT  TestBoth/a
    both_test.go:5: a is bad
=== NAME  TestBoth/b
    both_test.go:6: b is good
=== NAME  TestBoth/a
    both_test.go:7: it said
        --- FAIL: TestGood (0.00s)
--- FAIL: TestBoth (0.00s)
    --- FAIL: TestBoth/a (0.00s)
    --- PASS: TestBoth/b (0.00s)
FAIL
FAIL	github.com/x/y/rfs/one	0.1s
# github.com/x/y/rfs/two [github.com/x/y/rfs/two.test]
rfs/two/two.go:1:2: undefined: x
=== RUN   TestGood
    good_test.go:3: of no interest
--- PASS: TestGood (0.00s)
ok  	github.com/x/y/rfs/three	0.1s
FAIL	github.com/x/y/rfs/two [build failed]
=== RUN   TestHangs
    hangs_test.go:9: waits
panic: test timed out after 1s
FAIL	github.com/x/y/rfs/four	1.1s
=== RUN   TestAfterwards
--- FAIL: TestAfterwards (0.00s)
panic: outside
FAIL	github.com/x/y/rfs/five	1.1s
FAIL
`
	early, shown, _ := strings.Cut(goTest(t, two), "v: every test ran\n")
	if want := `FAIL	github.com/x/y/rfs/one	0.1s
v: rfs/one TestBoth/a:
      both_test.go:5: a is bad
      both_test.go:7: it said
          --- FAIL: TestGood (0.00s)
# github.com/x/y/rfs/two [github.com/x/y/rfs/two.test]
`; !strings.Contains(early, want) {
		t.Errorf("a failed package does not show its reasons immediately:\n%s", early)
	}
	if want := `v: rfs/one TestBoth/a:
      both_test.go:5: a is bad
      both_test.go:7: it said
          --- FAIL: TestGood (0.00s)
v: build of github.com/x/y/rfs/two:
  rfs/two/two.go:1:2: undefined: x
v: rfs/four TestHangs:
      hangs_test.go:9: waits
  panic: test timed out after 1s
v: rfs/five:
  panic: outside
`; shown != want {
		t.Errorf("%s\ninstead of\n%s", shown, want)
	}
}

func TestSkippedTestsAreOneLine(t *testing.T) {
	const log = "=== RUN   TestServer\n    server_test.go:38: -short: no real servers\n--- SKIP: TestServer (0.00s)\nFAIL\nFAIL\tgithub.com/x/y/rfs/one\t0.1s\n"
	out := goTest(t, log)
	_, list, ok := strings.Cut(out, "v: 1 tests did not run here; names and reasons are in ")
	list, _, _ = strings.Cut(list, "\n")
	names, err := os.ReadFile(list)
	if !ok || err != nil || !strings.Contains(string(names), "rfs/one TestServer") {
		t.Errorf("%v\n%s\n%s", err, out, names)
	}
}

func TestWhatFailedTestsPrintedIsBounded(t *testing.T) {
	var log strings.Builder
	for test := range 6 {
		fmt.Fprintf(&log, "=== RUN   Test%d\n", test)
		for line := range 100 {
			fmt.Fprintf(&log, "    x_test.go:%d: %s\n", line, strings.Repeat("x", 2000))
		}
		fmt.Fprintf(&log, "--- FAIL: Test%d (0.00s)\n", test)
	}
	log.WriteString("FAIL\nFAIL\tgithub.com/x/y/rfs/one\t0.1s\nFAIL\n")
	_, shown, _ := strings.Cut(goTest(t, log.String()), "v: every test ran\n")
	lines := strings.Split(strings.TrimSuffix(shown, "\n"), "\n")
	// The name of a test, its first and last 40 lines, and what is left out between them.
	if len(lines) < 401 || !strings.HasPrefix(lines[40], "      x_test.go:39: ") || lines[41] != "  ... 20 lines are left out" ||
		!strings.HasPrefix(lines[42], "      x_test.go:60: ") || !strings.HasPrefix(lines[81], "      x_test.go:99: ") {
		t.Fatalf("%d lines:\n%.5000s", len(lines), shown)
	}
	if last := lines[400]; len(lines) != 401 || last != "v: 92 more lines are left out" {
		t.Errorf("%d lines, the last is %s", len(lines), last)
	}
	for _, line := range lines {
		if len(line) > 1002 {
			t.Fatalf("a line of %d bytes", len(line))
		}
	}
}
