// Package sinks delivers events of a daemon outside of it: to a webhook, and to a program.
package sinks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/secret"
)

// Webhook posts each event as JSON to a URL.
type Webhook struct {
	url    string
	client *http.Client
}

// NewWebhook returns a sink that posts to a URL. It follows no redirects.
func NewWebhook(url string) *Webhook {
	return &Webhook{url: url, client: &http.Client{
		Timeout:       10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Name returns "webhook".
func (w *Webhook) Name() string { return "webhook" }

// Deliver posts the event. Errors never contain the URL, because that may contain a secret.
func (w *Webhook) Deliver(ctx context.Context, e status.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("webhook: its URL cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := w.client.Do(req)
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return fmt.Errorf("webhook: %w", err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16)); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("webhook: status %d", res.StatusCode)
	}
	return nil
}

// Command runs a program for each event, with the event as JSON on its standard input.
type Command struct{ args []string }

// NewCommand returns a sink that runs a program with arguments, without a shell.
func NewCommand(args []string) *Command { return &Command{args: args} }

// Name returns "command".
func (c *Command) Name() string { return "command" }

// Deliver runs the program, and kills it when ctx is done. Its environment is secret.Environment.
func (c *Command) Deliver(ctx context.Context, e status.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Env = secret.Environment(os.Environ())
	cmd.Stdin = bytes.NewReader(append(body, '\n'))
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("command %s: %w", c.args[0], err)
	}
	return nil
}
