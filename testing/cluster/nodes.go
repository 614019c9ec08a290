package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// OpenSearchNodes returns a cluster of count OpenSearch nodes for this test alone, which are stopped when the test ends. Any of them
// answers for the cluster; Kill and Restart simulate a crash and a recovery.
func OpenSearchNodes(t testing.TB, version string, count int, opts ...Option) []*Node {
	t.Helper()
	return giveNodes(t, "opensearch", version, count, opts)
}

func giveNodes(t testing.TB, product, version string, count int, opts []Option) []*Node {
	t.Helper()
	drawn(t)
	check(t, allowed(product, version))
	ctx, cancel := context.WithTimeout(context.Background(), bootTime)
	defer cancel()
	nodes, err := BootNodes(ctx, product, version, count, opts...)
	check(t, err)
	t.Cleanup(func() {
		if err := stopAll(nodes); err != nil {
			t.Errorf("stop %s %s: %v", product, version, err)
		}
	})
	return nodes
}

// BootNodes is like Boot for a cluster of count nodes (OpenSearch only, without security). It blocks until every node sees all of them.
func BootNodes(ctx context.Context, product, version string, count int, opts ...Option) ([]*Node, error) {
	s := spec{product: product, version: version, heap: smallHeap}
	for _, o := range opts {
		o(&s)
	}
	fail := func(err error, nodes []*Node) ([]*Node, error) {
		return nil, errors.Join(fmt.Errorf("%s %s: %w", product, version, err), stopAll(nodes))
	}
	if count < 1 || count > 1 && (product != "opensearch" || s.secured || s.port != 0 || s.data != "") {
		return fail(fmt.Errorf("%d nodes: only OpenSearch forms clusters here, unsecured, on free ports and without earlier data", count), nil)
	}
	places, err := free(count, s.port)
	if err != nil {
		return fail(err, nil)
	}
	if count > 1 {
		s.peers = places
	}
	var nodes []*Node
	for _, p := range places {
		one := s
		one.place = p
		l, err := one.prepare(ctx)
		if err != nil {
			return fail(err, nodes)
		}
		l.node.launch = l
		nodes = append(nodes, l.node)
		if l.node.process, err = start(l); err != nil {
			return fail(err, nodes)
		}
	}
	for _, n := range nodes {
		if err := n.wait(ctx, count); err != nil {
			return fail(fmt.Errorf("%w; its log ends with:\n%s", err, n.process.tail()), nodes)
		}
	}
	return nodes, nil
}

func stopAll(nodes []*Node) error {
	var err error
	for _, n := range nodes {
		err = errors.Join(err, n.Stop())
	}
	return err
}

// Restart starts a killed node again, with its files and ports, and blocks until it has rejoined its cluster.
func (n *Node) Restart(ctx context.Context) error {
	if n.launch == nil {
		return fmt.Errorf("node %s was not started by this test", n.URL)
	}
	n.process.kill()
	p, err := start(n.launch)
	if err != nil {
		return fmt.Errorf("restart %s: %w", n.URL, err)
	}
	n.process = p
	if err := n.wait(ctx, 1); err != nil {
		return fmt.Errorf("restart %s: %w; its log ends with:\n%s", n.URL, err, p.tail())
	}
	return nil
}

// readyTime is the timeout for a server to answer. If several start concurrently on two cores, they need more than a minute.
const readyTime = 6 * time.Minute

// wait blocks until the node answers with its name and sees count nodes.
func (n *Node) wait(ctx context.Context, count int) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("not asked yet")
	for {
		names, err := n.nodeNames(ctx)
		switch {
		case err == nil && !slices.Contains(names, n.name):
			return fmt.Errorf("%s answers as %q, not as %s: another test's server", n.URL, names, n.name)
		case err == nil && len(names) >= count:
			return nil
		case err == nil:
			last = fmt.Errorf("it sees only %q", names)
		case !errors.Is(err, context.DeadlineExceeded):
			last = err
		}
		select {
		case <-tick.C:
		case <-n.process.ended:
			return errors.New("the server ended before it answered")
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v: %w: %w", readyTime, ctx.Err(), last)
		}
	}
}

// nodeNames returns the names of the nodes in the cluster. Some assemblies do not serve GET /.
func (n *Node) nodeNames(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	b, err := n.Send(ctx, "GET", "/_cat/nodes?h=name", "", nil)
	return strings.Fields(string(b)), err
}
