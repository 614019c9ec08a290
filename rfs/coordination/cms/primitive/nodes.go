package primitive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// Node is one member of the fleet as it advertises itself.
type Node struct {
	Token   string `json:"token"`
	Workers int    `json:"workers"`
	Seen    int64  `json:"seen"` // epoch ms of the store's clock; filled by Advertise
	// Gossip and API are the addresses of the node (host:port), so that its fleet finds itself again after all nodes were down.
	Gossip string `json:"gossip,omitempty"`
	API    string `json:"api,omitempty"`
	// Task is the kind of work of a process other than a daemon, such as the consumption of a topic.
	Task string `json:"task,omitempty"`
}

// Nodes is the list of nodes: one record, changed by versioned updates. It is advisory; nothing is granted or refused by it.
type Nodes struct {
	Store Store
	Clock timing.Clock
}

const (
	nodesID  = "nodes"
	maxNodes = 4096
)

type nodesBody struct {
	Nodes []Node `json:"nodes"`
}

// List returns the nodes in order of tokens.
func (n *Nodes) List(ctx context.Context) ([]Node, error) {
	r, err := n.Store.Record(ctx, nodesID)
	if errors.Is(err, cms.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list of nodes: %w", err)
	}
	return decodeNodes(r)
}

func decodeNodes(r cms.Record) ([]Node, error) {
	if len(r.Body) == 0 {
		return nil, nil
	}
	var body nodesBody
	if err := r.Decode(&body); err != nil {
		return nil, fmt.Errorf("list of nodes: %w", err)
	}
	return body.Nodes, nil
}

// Advertise adds or refreshes a node.
func (n *Nodes) Advertise(ctx context.Context, self Node) error {
	return n.update(ctx, func(nodes []Node, now int64) []Node {
		self.Seen = now
		nodes = slices.DeleteFunc(nodes, func(x Node) bool { return x.Token == self.Token })
		return append(nodes, self)
	})
}

// Expire removes the nodes that were last seen more than age ago.
func (n *Nodes) Expire(ctx context.Context, age time.Duration) error {
	return n.update(ctx, func(nodes []Node, now int64) []Node {
		return slices.DeleteFunc(nodes, func(x Node) bool { return now-x.Seen > age.Milliseconds() })
	})
}

// update stores the result of change, which gets the time in epoch ms of the store's clock, if it differs.
func (n *Nodes) update(ctx context.Context, change func(nodes []Node, now int64) []Node) error {
	err := cms.NewLeases(n.Store, n.Clock, nil).Change(ctx, nodesID, nodesID, func(_ context.Context, r cms.Record, now time.Time, _ time.Duration) (cms.Record, cms.Result, error) {
		before, err := decodeNodes(r)
		if err != nil {
			return r, cms.Already, err
		}
		nodes := change(slices.Clone(before), now.UnixMilli())
		if len(nodes) > maxNodes {
			return r, cms.Already, fmt.Errorf("list of nodes: more than %d: %w", maxNodes, fault.ErrUnsupported)
		}
		slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Token, b.Token) })
		if slices.Equal(nodes, before) {
			return r, cms.Already, nil
		}
		r.Body, err = json.Marshal(nodesBody{nodes})
		return r, cms.Applied, err
	})
	if err != nil {
		return fmt.Errorf("list of nodes: %w", err)
	}
	return nil
}

// Withdraw removes a node.
func (n *Nodes) Withdraw(ctx context.Context, token string) error {
	return n.update(ctx, func(nodes []Node, _ int64) []Node {
		return slices.DeleteFunc(nodes, func(x Node) bool { return x.Token == token })
	})
}
