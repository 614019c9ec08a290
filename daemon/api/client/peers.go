package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
)

// Peers sends requests to other nodes of the fleet. Each request has its own connections, so that nodes of a large fleet keep none open.
type Peers struct{ Identity *cert.Identity }

const (
	// maxAnswer limits a response of another node, in bytes.
	maxAnswer = 32 << 20
	// hintsTimeout and readingTimeout limit a request to one node.
	hintsTimeout   = 2 * time.Second
	readingTimeout = 10 * time.Second
)

// Hints returns the hints of a kind, as JSON, from the first node that answers.
func (p Peers) Hints(ctx context.Context, nodes []string, kind string) ([]byte, error) {
	return p.ask(ctx, Options{Nodes: nodes, Timeout: hintsTimeout}, "/v1/peer/hints", url.Values{"kind": {kind}})
}

// Reading returns the leader's packed reading of the coordination store from the first node that answers; empty if it is not newer than
// after.
func (p Peers) Reading(ctx context.Context, nodes []string, after time.Time) ([]byte, error) {
	since := max(after.UnixMilli(), 0) // the zero time is before the epoch
	return p.ask(ctx, Options{Nodes: nodes, Timeout: readingTimeout}, "/v1/peer/reading", url.Values{"after": {strconv.FormatInt(since, 10)}})
}

// ask returns the first response of at most maxAnswer bytes.
func (p Peers) ask(ctx context.Context, o Options, path string, query url.Values) ([]byte, error) {
	o.Identity = p.Identity
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, n := range c.nodes {
			n.http.CloseIdleConnections()
		}
	}()
	var answer []byte
	_, err = c.do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, func(r io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
		if err == nil && len(b) > maxAnswer {
			err = fmt.Errorf("more than %d bytes", maxAnswer)
		}
		answer = b
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}
