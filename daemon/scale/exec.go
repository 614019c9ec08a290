package scale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/secret"
)

// Exec runs a program with the desired number of machines as its last argument. The program adjusts the number of machines to it, from any
// number, and may print how many run now as the last line of its output. It is run without a shell; its environment is secret.Environment.
type Exec struct {
	Args []string

	applied int
	due     time.Time // when the program is run again for the same number
	running int
}

const (
	// execInterval is the interval at which the program is run with an unchanged number, because machines may have ended by themselves.
	execInterval = time.Minute
	// maxOutput limits the part of the program's output that is kept, in bytes.
	maxOutput = 4 << 10
)

// Apply runs the program if the number has changed, the last run failed, or execInterval has passed. When ctx is done it kills the program.
func (e *Exec) Apply(ctx context.Context, n int) (running int, err error) {
	if e.applied == n && time.Now().Before(e.due) {
		return e.running, nil
	}
	e.due = time.Time{}
	var out, errOut tail
	cmd := exec.CommandContext(ctx, e.Args[0], append(slices.Clone(e.Args[1:]), strconv.Itoa(n))...)
	cmd.Env = secret.Environment(os.Environ())
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errOut, time.Second
	if err := cmd.Run(); err != nil {
		category := fault.ErrUnavailable
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			category = fault.ErrConfig
		}
		return 0, fmt.Errorf("scale command %s %d: %w: %s: %w", e.Args[0], n, err, errOut.lastLine(), category)
	}
	e.applied, e.due, e.running = n, time.Now().Add(execInterval), n
	if is, err := strconv.Atoi(out.lastLine()); err == nil && is >= 0 && is <= maxMachines {
		e.running = is
	}
	return e.running, nil
}

// tail keeps the last maxOutput bytes written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-maxOutput):]...)
	t.b = t.b[max(0, len(t.b)-maxOutput):]
	return len(p), nil
}

// lastLine returns the last non-empty line.
func (t *tail) lastLine() string {
	b := bytes.TrimSpace(t.b)
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}
