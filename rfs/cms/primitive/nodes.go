package primitive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
)

// Node is one member of the fleet as it advertises itself.
type Node struct {
	Token   string `json:"token"`
	Workers int    `json:"workers"`
	Seen    int64  `json:"seen"` // epoch ms of the store's clock; filled by Advertise
	// Gossip and API are where the node is reached (host:port), so that a fleet whose
	// nodes all went down finds itself again.
	Gossip string `json:"gossip,omitempty"`
	API    string `json:"api,omitempty"`
	// Task is "" for a daemon; processes of an import of a former release are in the list, too.
	Task string `json:"task,omitempty"`
}

// Nodes is the list of nodes: one record, changed by versioned updates. It is
// advice only; nothing is granted or refused by it.
type Nodes struct {
	Store Store
	Clock cms.Clock
}

const (
	nodesID    = "nodes"
	maxNodes   = 4096
	nodesTries = 20
)

type nodesBody struct {
	Nodes []Node `json:"nodes"`
}

// List gives the nodes in order of tokens.
func (n *Nodes) List(ctx context.Context) ([]Node, error) {
	_, body, err := n.read(ctx)
	return body.Nodes, err
}

func (n *Nodes) read(ctx context.Context) (cms.Record, nodesBody, error) {
	var body nodesBody
	r, err := n.Store.Record(ctx, nodesID)
	if errors.Is(err, cms.ErrNotFound) {
		return cms.Record{ID: nodesID, Kind: nodesID}, body, nil
	}
	if err != nil {
		return r, body, fmt.Errorf("list of nodes: %w", err)
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return r, body, fmt.Errorf("list of nodes: %w: %w", err, fault.ErrCorrupt)
	}
	return r, body, nil
}

// Advertise adds or refreshes a node.
func (n *Nodes) Advertise(ctx context.Context, self Node) error {
	now, _, err := n.Store.Now(ctx)
	if err != nil {
		return fmt.Errorf("advertise node: %w", err)
	}
	self.Seen = now.UnixMilli()
	return n.update(ctx, func(nodes []Node) []Node {
		nodes = slices.DeleteFunc(nodes, func(x Node) bool { return x.Token == self.Token })
		return append(nodes, self)
	})
}

// Expire removes the nodes that were not seen for longer than age.
func (n *Nodes) Expire(ctx context.Context, age time.Duration) error {
	now, _, err := n.Store.Now(ctx)
	if err != nil {
		return fmt.Errorf("expire nodes: %w", err)
	}
	return n.update(ctx, func(nodes []Node) []Node {
		return slices.DeleteFunc(nodes, func(x Node) bool { return now.UnixMilli()-x.Seen > age.Milliseconds() })
	})
}

func (n *Nodes) update(ctx context.Context, change func([]Node) []Node) error {
	var err error
	for try := range nodesTries {
		r, body, rerr := n.read(ctx)
		if rerr != nil {
			return rerr
		}
		body.Nodes = change(body.Nodes)
		if len(body.Nodes) > maxNodes {
			return fmt.Errorf("list of nodes: more than %d: %w", maxNodes, fault.ErrUnsupported)
		}
		slices.SortFunc(body.Nodes, func(a, b Node) int { return strings.Compare(a.Token, b.Token) })
		if r.Body, err = json.Marshal(body); err != nil {
			return fmt.Errorf("list of nodes: %w", err)
		}
		if _, err = n.Store.Put(ctx, r); !errors.Is(err, cms.ErrConflict) {
			break
		}
		if serr := n.Clock.Sleep(ctx, pause(time.Duration(try+1)*20*time.Millisecond)); serr != nil {
			return errors.Join(err, serr)
		}
	}
	if err != nil {
		return fmt.Errorf("list of nodes: %w", err)
	}
	return nil
}

// pause is a random time up to d.
func pause(d time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(d) + 1)) }
