// Package live accesses the source cluster: it reads the cluster's version and indices, and creates snapshots. It supports Elasticsearch
// 1.x–9.x and OpenSearch 1–3. It changes only its own repository registration and snapshots, and write blocks on request.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
)

// Version describes the source.
type Version struct {
	Distribution string // elasticsearch or opensearch
	Number       string // 7.10.2
	Major, Minor int
}

// Cluster is a source cluster.
type Cluster struct {
	api     rest.API
	version Version
	uuid    string
}

// Open reads the version of the cluster: by GET /, or by GET /_nodes/_local if that is not answered. Errors: fault.ErrUnavailable;
// fault.ErrConfig if it is not such a cluster or refuses the user.
func Open(ctx context.Context, api rest.API) (*Cluster, error) {
	c := &Cluster{api: api}
	var root struct {
		Version struct{ Number, Distribution string }
		Tagline string
		UUID    string `json:"cluster_uuid"`
	}
	if err := c.get(ctx, "/", &root); err != nil || root.Version.Number == "" {
		nodes, nerr := c.nodeVersion(ctx)
		if nerr != nil && err != nil {
			return nil, fmt.Errorf("source: %w", err)
		}
		if nerr != nil {
			return nil, fmt.Errorf("source: %w", nerr)
		}
		root.Version.Number = nodes
	}
	v := Version{Distribution: root.Version.Distribution, Number: root.Version.Number}
	if v.Distribution == "" && strings.Contains(root.Tagline, "OpenSearch") {
		// It reports 7.10.2 to old clients (compatibility.override_main_response_version).
		v.Distribution = "opensearch"
		if n, err := c.nodeVersion(ctx); err == nil {
			v.Number = n
		}
	}
	if v.Distribution == "" {
		v.Distribution = "elasticsearch"
	}
	parts := strings.SplitN(v.Number, ".", 3)
	var err, err2 error
	if len(parts) >= 2 {
		v.Major, err = strconv.Atoi(parts[0])
		v.Minor, err2 = strconv.Atoi(parts[1])
	}
	if len(parts) < 2 || err != nil || err2 != nil {
		return nil, fmt.Errorf("the source does not answer as an Elasticsearch or OpenSearch: its version is %q; check --source-host: %w", v.Number, fault.ErrConfig)
	}
	c.version = v
	if root.UUID != "_na_" {
		c.uuid = root.UUID
	}
	return c, nil
}

// UUID returns the UUID of the cluster; "" if it is unknown, as before Elasticsearch 5.
func (c *Cluster) UUID() string { return c.uuid }

// Version returns the version that Open found.
func (c *Cluster) Version() Version { return c.version }

func (c *Cluster) nodeVersion(ctx context.Context) (string, error) {
	var nodes struct {
		Nodes map[string]struct{ Version string }
	}
	if err := c.get(ctx, "/_nodes/_local", &nodes); err != nil {
		return "", err
	}
	for _, n := range nodes.Nodes {
		return n.Version, nil
	}
	return "", fmt.Errorf("the cluster reports no version: %w", fault.ErrConfig)
}

// get decodes the JSON response to a GET request into a value.
func (c *Cluster) get(ctx context.Context, path string, into any) error {
	return c.call(ctx, http.MethodGet, path, nil, nil, into)
}

// call sends a request and decodes its response. A refusal is a *Refusal.
func (c *Cluster) call(ctx context.Context, method, path string, query url.Values, body any, into any) error {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	status, answer, err := c.api.Do(ctx, method, path, query, raw)
	if err != nil {
		return err // the API names request and cluster
	}
	if status >= 300 {
		return refusal(method+" "+path, status, answer)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s %s: unexpected answer of %d bytes: %w: %w", method, path, len(answer), err, fault.ErrUnavailable)
	}
	return nil
}

// Refusal is a response that is not a success.
type Refusal struct {
	Request string
	Status  int
	Reason  string // the cluster's message
}

// Error returns the request, the status and the cluster's message.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%s: status %d: %s", r.Request, r.Status, r.Reason)
}

// ErrBusy means that the source creates or deletes another snapshot and does not accept a second one at the same time (Elasticsearch before
// 7.7 always, later ones at their limit). It is also a fault.ErrUnavailable.
var ErrBusy = errors.New("another snapshot is being made on the source")

// Is maps refusals to the categories of fault; a 404 is also fs.ErrNotExist.
func (r *Refusal) Is(target error) bool {
	if target == ErrBusy {
		return strings.HasPrefix(r.Reason, "concurrent_snapshot_execution_exception") || strings.Contains(r.Reason, "ConcurrentSnapshotExecutionException")
	}
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return target == fault.ErrConfig
	case http.StatusNotFound:
		return target == fs.ErrNotExist || target == fault.ErrConfig
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return target == fault.ErrUnavailable
	}
	return target == fault.ErrRejected
}

// maxReason bounds the quotation of a cluster's message, in bytes.
const maxReason = 2000

// refusal parses the error in a response: an object since Elasticsearch 2.0, a string before.
func refusal(request string, status int, answer []byte) error {
	var a struct {
		Error json.RawMessage
	}
	reason := strings.TrimSpace(string(answer))
	if json.Unmarshal(answer, &a) == nil && len(a.Error) > 0 {
		reason = reasons(a.Error)
	}
	if len(reason) > maxReason {
		reason = reason[:maxReason] + "…"
	}
	return &Refusal{Request: request, Status: status, Reason: reason}
}

// reasons joins the types and reasons of an error and of its causes.
func reasons(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var e struct {
		Type   string
		Reason string
		Cause  json.RawMessage `json:"caused_by"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return string(raw)
	}
	text = e.Type + ": " + e.Reason
	if len(e.Cause) > 0 {
		text += "; caused by " + reasons(e.Cause)
	}
	return text
}
