package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// usage is the resource usage of one process.
type usage struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"` // user and system, all threads
	PeakBytes  int64   `json:"peak_bytes"`  // largest resident size
}

// measureVerb makes this program a small parent that starts another program and reports its usage. Linux initializes the resident peak of a
// child with that of its parent, and the benchmark itself is large.
const measureVerb = "measure-child"

// measured runs a program to its end and returns its standard output. Standard error becomes part of the error message.
func measured(ctx context.Context, program string, args ...string) ([]byte, usage, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, usage{}, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, usage{}, err
	}
	defer r.Close()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, self, append([]string{measureVerb, program}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Run()
	w.Close()
	if err != nil {
		return stdout.Bytes(), usage{}, fmt.Errorf("%s: %w: %s", program, err, tail(stderr.Bytes()))
	}
	var u usage
	if err := json.NewDecoder(r).Decode(&u); err != nil {
		return nil, u, fmt.Errorf("usage of %s: %w", program, err)
	}
	return stdout.Bytes(), u, nil
}

// tail returns the end of a program's error output.
func tail(b []byte) []byte {
	const most = 2000
	b = bytes.TrimSpace(b)
	return b[max(0, len(b)-most):]
}

// measureChild is the parent of the measured program; it returns the exit code.
func measureChild(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	begin := time.Now()
	err := cmd.Run()
	elapsed := time.Since(begin)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	u := usage{Seconds: elapsed.Seconds()}
	u.CPUSeconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.PeakBytes = ru.Maxrss * maxrssUnit
	}
	if err := json.NewEncoder(os.NewFile(3, "usage of pid "+strconv.Itoa(cmd.Process.Pid))).Encode(u); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
