// Package rest talks JSON over HTTP to clusters that serve as sources and targets of tests. It stands
// apart from the project's own client, so that tests do not judge that client by itself.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxAnswer bounds what is read of one answer, in bytes.
const maxAnswer = 512 << 20

// Client sends requests to one cluster. The zero value with a URL is ready.
type Client struct {
	URL  string // http://127.0.0.1:9200
	HTTP *http.Client
}

// Error is an answer with a status that was not wanted.
type Error struct {
	Method, Path string
	Status       int
	Body         string // the beginning of the answer
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: status %d: %s", e.Method, e.Path, e.Status, e.Body)
}

// Send sends a request with a body of a content type ("" sends JSON) and gives the whole answer;
// a status of 300 or more is an *Error.
func (c Client) Send(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, in)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		if contentType == "" {
			contentType = "application/json"
		}
		req.Header.Set("Content-Type", contentType)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode >= 300 {
		return answer, &Error{Method: method, Path: path, Status: resp.StatusCode, Body: string(answer[:min(len(answer), 1000)])}
	}
	return answer, nil
}

// JSON sends body (a string is sent as it is, nil not at all, anything else as JSON) and decodes
// the answer into out unless that is nil. Numbers are kept exact when out holds any.
func (c Client) JSON(ctx context.Context, method, path string, body, out any) error {
	var raw []byte
	switch b := body.(type) {
	case nil:
	case string:
		raw = []byte(b)
	default:
		var err error
		if raw, err = json.Marshal(b); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	answer, err := c.Send(ctx, method, path, "", raw)
	if err != nil || out == nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(answer))
	dec.UseNumber()
	if err := dec.Decode(out); err != nil {
		return fmt.Errorf("%s %s: %w: %.200s", method, path, err, answer)
	}
	return nil
}

// Bulk sends NDJSON to path (such as /index/_bulk); a refused item is an error.
func (c Client) Bulk(ctx context.Context, path string, body []byte) error {
	answer, err := c.Send(ctx, http.MethodPost, path, "application/x-ndjson", body)
	if err != nil {
		return err
	}
	var result struct {
		Errors bool
		Items  []map[string]struct {
			ID    string `json:"_id"`
			Error json.RawMessage
		}
	}
	if err := json.Unmarshal(answer, &result); err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	if !result.Errors {
		return nil
	}
	for pos, item := range result.Items {
		for action, r := range item {
			if len(r.Error) > 0 {
				return fmt.Errorf("POST %s: item %d: %s %s: %s", path, pos, action, r.ID, r.Error)
			}
		}
	}
	return fmt.Errorf("POST %s: errors without a refused item", path)
}

// WaitReady returns once the cluster answers that it is at least yellow, or with the context's error.
func (c Client) WaitReady(ctx context.Context) error {
	for {
		_, err := c.Send(ctx, http.MethodGet, "/_cluster/health?wait_for_status=yellow&timeout=10s", "", nil)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", c.URL, ctx.Err(), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
