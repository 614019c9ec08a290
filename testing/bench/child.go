package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// child is a process that does one round of a measurement for each line it gets, and answers with a line of JSON.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer
}

func startChild(ctx context.Context, program string, args ...string) (*child, error) {
	return startChildWith(ctx, nil, program, args...)
}

// startChildWith starts a child with further variables in its environment.
func startChildWith(ctx context.Context, environment []string, program string, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, program, args...)}
	c.cmd.Env = append(os.Environ(), environment...)
	c.cmd.Stderr = &c.stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	return c, c.cmd.Start()
}

// ask has the child do a round and reads its answer.
func (c *child) ask(into any) error {
	_, err := io.WriteString(c.in, "\n")
	if err == nil && c.out.Scan() {
		return json.Unmarshal(c.out.Bytes(), into)
	}
	return fmt.Errorf("%s: %w", c.cmd.Path, errors.Join(err, c.out.Err(), c.close(), errors.New(string(tail(c.stderr.Bytes())))))
}

// close ends the child, which waits for no more rounds.
func (c *child) close() error {
	_ = c.in.Close() // it may be gone
	return c.cmd.Wait()
}
