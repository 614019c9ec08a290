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

// child is a process that runs one round of a measurement for each line on its input, and answers with a line of JSON.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer
}

func startChild(ctx context.Context, program string, args ...string) (*child, error) {
	return startChildWith(ctx, nil, program, args...)
}

// startChildWith starts a child with additional environment variables.
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

// ask runs a round in the child and decodes its answer.
func (c *child) ask(into any) error {
	_, err := io.WriteString(c.in, "\n")
	if err == nil && c.out.Scan() {
		return json.Unmarshal(c.out.Bytes(), into)
	}
	return fmt.Errorf("%s: %w", c.cmd.Path, errors.Join(err, c.out.Err(), c.close(), errors.New(string(tail(c.stderr.Bytes())))))
}

// close closes the input of the child, which ends it.
func (c *child) close() error {
	_ = c.in.Close() // the child may have ended
	return c.cmd.Wait()
}
