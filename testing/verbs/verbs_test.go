// Package verbs_test holds the scripts behind the Makefile's verbs to what they promise.
package verbs_test

import (
	"os"
	"os/exec"
	"path/filepath"
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
