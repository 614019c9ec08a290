package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/rest"
)

// Client returns a plain HTTP client that trusts the node's certificate authority and authenticates as its user. It does not use the
// project's own client.
func (n *Node) Client() (rest.Client, error) {
	if n.CACert == "" {
		return rest.Client{URL: n.URL}, nil
	}
	pem, err := os.ReadFile(n.CACert)
	if err != nil {
		return rest.Client{}, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return rest.Client{}, fmt.Errorf("%s holds no certificate", n.CACert)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	return rest.Client{URL: n.URL, HTTP: &http.Client{Transport: signedIn{tr, n.Username, n.Password}}}, nil
}

// Send is rest.Client.Send on this node.
func (n *Node) Send(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	c, err := n.Client()
	if err != nil {
		return nil, err
	}
	return c.Send(ctx, method, path, contentType, body)
}

// JSON is rest.Client.JSON on this node.
func (n *Node) JSON(ctx context.Context, method, path string, body, out any) error {
	c, err := n.Client()
	if err != nil {
		return err
	}
	return c.JSON(ctx, method, path, body, out)
}

// Wipe deletes all indices, templates and pipelines.
func (n *Node) Wipe(t testing.TB) {
	t.Helper()
	var indices []struct{ Index string }
	if err := n.JSON(t.Context(), "GET", "/_cat/indices?format=json&h=index&expand_wildcards=all", nil, &indices); err != nil {
		t.Fatal(err)
	}
	for _, i := range indices {
		if _, err := n.Send(t.Context(), "DELETE", "/"+i.Index, "", nil); err != nil {
			t.Logf("delete %s: %v", i.Index, err)
		}
	}
	for _, path := range []string{"/_template/*", "/_index_template/*", "/_component_template/*", "/_ingest/pipeline/*"} {
		if _, err := n.Send(t.Context(), "DELETE", path, "", nil); err != nil && !strings.Contains(err.Error(), "status 404") {
			t.Logf("delete %s: %v", path, err)
		}
	}
}

// Snapshot registers an fs repository in a directory of its own below Repos, takes a snapshot of the indices (all if empty), and returns
// the directory of the repository.
func (n *Node) Snapshot(ctx context.Context, repo, snapshot, indices string) (string, error) {
	if n.Repos == "" {
		return "", fmt.Errorf("node %s has no directory for repositories", n.URL)
	}
	dir := n.Repos + "/" + repo
	settings := map[string]any{"type": "fs", "settings": map[string]any{"location": dir}}
	if err := n.JSON(ctx, "PUT", "/_snapshot/"+repo, settings, nil); err != nil {
		return "", err
	}
	what := map[string]any{"include_global_state": true}
	if indices != "" {
		what["indices"] = indices
	}
	return dir, n.JSON(ctx, "PUT", "/_snapshot/"+repo+"/"+snapshot+"?wait_for_completion=true", what, nil)
}

// signedIn adds basic auth to every request.
type signedIn struct {
	next           http.RoundTripper
	user, password string
}

func (s signedIn) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(s.user+":"+s.password)))
	return s.next.RoundTrip(req)
}
