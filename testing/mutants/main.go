// Command mutants breaks the program on purpose, one rule at a time in a copy of the repository, and runs the tests of the rule.
// It is an error if a mutant survives, since then no test checks the rule.
//
// mutants.txt lists them: lines "mutant:", "file:", "test:" (arguments of go test), then the former lines after "old:" and their
// replacement between "new:" and "end".
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed mutants.txt
var list string

type mutant struct {
	name, file, old, new string
	test                 []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	only := flag.String("only", "", "run only the mutants of files whose path contains this text")
	flag.Parse()
	if err := run(ctx, *only, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func run(ctx context.Context, only string, out io.Writer) error {
	mutants, err := parse(list)
	if err != nil {
		return err
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !strings.Contains(m.file, only) })
	dir, err := os.MkdirTemp("", "rfsd-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // only a copy
	if err := copyTree(ctx, dir); err != nil {
		return fmt.Errorf("copy of the repository: %w", err)
	}
	survivors, stale := 0, 0
	for _, m := range mutants {
		caught, took, err := m.try(ctx, dir)
		result := "caught"
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			result = "STALE"
			stale++
		case !caught:
			result = "SURVIVED"
			survivors++
		}
		fmt.Fprintf(out, "%-9s %5.1fs  %s\n", result, took.Seconds(), m.name)
		if err != nil {
			fmt.Fprintf(out, "%v\n", err)
		}
	}
	if survivors+stale > 0 {
		return fmt.Errorf("%d of %d mutants survived, and %d could not be applied", survivors, len(mutants), stale)
	}
	return nil
}

func parse(text string) (all []mutant, err error) {
	var m *mutant
	var into *string
	for n, line := range strings.Split(text, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "old:" && m != nil:
			into = &m.old
		case line == "new:" && m != nil:
			into = &m.new
		case line == "end" && m != nil:
			if m.file == "" || m.old == "" || len(m.test) == 0 {
				return nil, fmt.Errorf("line %d: incomplete mutant %q", n+1, m.name)
			}
			all = append(all, *m)
			m, into = nil, nil
		case into != nil:
			*into += line + "\n"
		case line == "" || strings.HasPrefix(line, "#"):
		case key == "mutant":
			m = &mutant{name: value}
		case key == "file" && m != nil:
			m.file = value
		case key == "test" && m != nil:
			m.test = strings.Fields(value)
		default:
			return nil, fmt.Errorf("line %d: %q", n+1, line)
		}
	}
	return all, nil
}

// copyTree copies the tracked files, and untracked ones that git does not ignore.
func copyTree(ctx context.Context, dir string) error {
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return err
	}
	top := strings.TrimSpace(string(root))
	ls := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.go", "go.mod", "go.sum", "rfs", "testing", "docs")
	ls.Dir = top
	names, err := ls.Output()
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(top, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted but not committed
		}
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// try applies the mutant, runs its tests, and restores the file. caught means that a test failed.
func (m mutant) try(ctx context.Context, dir string) (caught bool, took time.Duration, err error) {
	path := filepath.Join(dir, m.file)
	was, err := os.ReadFile(path)
	if err != nil {
		return false, 0, err
	}
	if n := bytes.Count(was, []byte(m.old)); n != 1 {
		return false, 0, fmt.Errorf("%s holds the old lines %d times", m.file, n)
	}
	if err := os.WriteFile(path, bytes.Replace(was, []byte(m.old), []byte(m.new), 1), 0o644); err != nil {
		return false, 0, err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, was, 0o644)) }()
	pkg := m.test[0]
	if out, err := command(ctx, dir, "vet", pkg).CombinedOutput(); err != nil {
		return false, 0, fmt.Errorf("the mutant does not compile: %w\n%s", err, out)
	}
	start := time.Now()
	out, err := command(ctx, dir, append([]string{"test", "-short", "-count=1", "-timeout=120s"}, m.test...)...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return false, 0, errors.Join(err, ctx.Err())
	}
	return bytes.Contains(out, []byte("--- FAIL")) || bytes.Contains(out, []byte("panic: test timed out")), time.Since(start), nil
}

func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = dir
	return c
}
