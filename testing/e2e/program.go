// Package e2e runs the built programs as an operator would.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Root is the top of the checkout, found from the module file.
var Root = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return ""
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
})

// programs is the directory into which build writes, which exists while tests run. Each process has its own: several run tests of
// this package at the same time, and none may replace a program while another starts it.
var programs string

var build = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "build", "-o", programs+string(filepath.Separator), "./cmd/rfsd", "./cmd/rfsctl")
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return programs, nil
})

// Binary builds the programs once and gives the path of one.
func Binary(t testing.TB, name string) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return filepath.Join(dir, name)
}

// Result is what a program left behind.
type Result struct {
	Code   int
	Stdout string
	Stderr string
}

// Run executes a program to its end, at most five minutes, in a directory of its own.
func Run(t testing.TB, name string, args ...string) Result {
	t.Helper()
	return RunIn(t, t.TempDir(), nil, name, args...)
}

// RunIn is Run in a given directory with more environment.
func RunIn(t testing.TB, dir string, env []string, name string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t, name), args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state")), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", name, err)
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// fixture returns the directory of a bundled snapshot; its truth lies beside it.
func fixture(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(Root(), "testing", "fixtures", name)
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("the bundled snapshot is missing: %v", err)
	}
	return dir
}
