// Package cluster boots real OpenSearch and Elasticsearch nodes for tests, from published
// Maven artifacts, without containers. Nodes listen on loopback only, on free ports, and
// die with the process that started them. DESIGN.md says what is assembled from what.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/draw"
)

// ErrMissing is the reason for a skip: this machine lacks something that a node needs.
var ErrMissing = errors.New("missing on this machine")

// Node is one running server.
type Node struct {
	URL     string // http://127.0.0.1:port, https for a secured node
	Product string // opensearch or elasticsearch
	Version string
	Dir     string // working directory with data, logs and repos; "" for a node that the test did not start
	Repos   string // directory that fs repositories may use (path.repo); "" when not known

	// The user, authority and client certificate of a secured node; empty otherwise.
	Username, Password          string
	CACert, AdminCert, AdminKey string // PEM files
	name                        string
	launch                      *launch
	process                     *process
}

// Option changes one node; a node with options is never shared.
type Option func(*spec)

// Setting sets one node setting.
func Setting(key, value string) Option {
	return func(s *spec) { s.settings = append(s.settings, key+"="+value) }
}

// Heap sets the Java heap, such as "1g"; 512m is the default.
func Heap(size string) Option { return func(s *spec) { s.heap = size } }

// Collector sets the garbage collector, such as "G1", the servers' own default; "Serial" is ours, for it is small.
// Under load it matters: with Serial, OpenSearch's circuit breaker would count garbage as memory in use, and counts reserved memory
// only.
func Collector(name string) Option { return func(s *spec) { s.collector = name } }

// Secured adds TLS, basic auth and an admin client certificate (OpenSearch 1.x and 2.x only).
func Secured() Option { return func(s *spec) { s.secured = true } }

// Port sets the HTTP port on loopback of a single node; a free one is the default.
func Port(port int) Option { return func(s *spec) { s.port = port } }

// RepoDir allows fs repositories below a further directory.
func RepoDir(dir string) Option { return func(s *spec) { s.repos = append(s.repos, dir) } }

// spec is what a node is started from.
type spec struct {
	product, version string
	heap             string
	collector        string // "" for Serial
	secured          bool
	settings, repos  []string
	data             string // directory to start from, "" for none
	port             int    // HTTP port, 0 for a free one
	place            place
	peers            []place // all nodes of the cluster; empty for a single node
}

// OpenSearch gives a running OpenSearch node. Without options the node is shared by all
// tests of this process, or is the one named by RFSD_TEST_OPENSEARCH_<version with _ for .>.
// The test is skipped when the machine cannot run it, or RFSD_TESTS does not draw it.
func OpenSearch(t testing.TB, version string, opts ...Option) *Node {
	t.Helper()
	return give(t, "opensearch", version, opts)
}

// Elasticsearch is OpenSearch for Elasticsearch (RFSD_TEST_ELASTICSEARCH_…).
func Elasticsearch(t testing.TB, version string, opts ...Option) *Node {
	t.Helper()
	return give(t, "elasticsearch", version, opts)
}

// drawn skips a test that is not to use a real server now.
func drawn(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	draw.Test(t)
}

func give(t testing.TB, product, version string, opts []Option) *Node {
	t.Helper()
	if len(opts) > 0 {
		return giveNodes(t, product, version, 1, opts)[0]
	}
	drawn(t)
	ctx, cancel := context.WithTimeout(context.Background(), bootTime)
	defer cancel()
	n, err := sharedNodes.get(ctx, product, version)
	check(t, err)
	return n
}

// bootTime covers a first download as well.
const bootTime = 15 * time.Minute

func check(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// shared keeps the nodes that all tests of a process use. They are not stopped by a test:
// the kernel kills them with the process (parent death signal).
type shared struct {
	mu    sync.Mutex
	nodes map[string]func() (*Node, error)
}

// sharedNodes lives as long as the test binary: a node takes up to 45 s to start.
var sharedNodes = &shared{nodes: map[string]func() (*Node, error){}}

func (s *shared) get(ctx context.Context, product, version string) (*Node, error) {
	key := product + " " + version
	s.mu.Lock()
	start, ok := s.nodes[key]
	if !ok {
		start = sync.OnceValues(func() (*Node, error) {
			if url := os.Getenv(variable(product, version)); url != "" {
				return adopt(ctx, product, version, url)
			}
			if err := allowed(product, version); err != nil {
				return nil, err
			}
			return Boot(ctx, product, version)
		})
		s.nodes[key] = start
	}
	s.mu.Unlock()
	return start()
}

// allowed says why a test may not boot a node: what is not in the cache is only downloaded when RFSD_E2E is set.
func allowed(product, version string) error {
	if os.Getenv("RFSD_E2E") != "" || ready(product, version) {
		return nil
	}
	return fmt.Errorf("%s %s is not assembled yet (RFSD_E2E=1 downloads it; so does go run ./testing/cluster/boot): %w",
		product, version, ErrMissing)
}

// variable names the environment variable that holds the URL of a running node.
func variable(product, version string) string {
	return "RFSD_TEST_" + strings.ToUpper(product) + "_" + strings.ReplaceAll(version, ".", "_")
}

// adopt uses a node that runs already, if it is of the wanted version.
func adopt(ctx context.Context, product, version, url string) (*Node, error) {
	n := &Node{URL: strings.TrimSuffix(url, "/"), Product: product, Version: version}
	// GET / is not served by every assembly of Elasticsearch.
	b, err := n.Send(ctx, "GET", "/_cat/nodes?h=version", "", nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable(product, version), err)
	}
	if found := slices.Compact(strings.Fields(string(b))); len(found) != 1 || found[0] != version {
		return nil, fmt.Errorf("%s: the node at %s has version %q", variable(product, version), url, found)
	}
	return n, nil
}

// Boot assembles and starts a node and waits for it. The caller stops it; it dies with the
// calling process in any case. ErrMissing says what this machine lacks.
func Boot(ctx context.Context, product, version string, opts ...Option) (*Node, error) {
	nodes, err := BootNodes(ctx, product, version, 1, opts...)
	if err != nil {
		return nil, err
	}
	return nodes[0], nil
}

// prepare assembles what the node needs and writes its files.
func (s *spec) prepare(ctx context.Context) (*launch, error) {
	switch s.product {
	case "opensearch":
		return openSearch(ctx, s)
	case "elasticsearch":
		return elasticsearch(ctx, s)
	}
	return nil, fmt.Errorf("unknown product %q", s.product)
}

// Stop ends the node, waits for it and removes its files. A node that the test did not start is left alone.
func (n *Node) Stop() error {
	if n.process != nil {
		n.process.stop()
	}
	if n.Dir == "" {
		return nil
	}
	return os.RemoveAll(n.Dir)
}

// Kill ends the node as a crash does (SIGKILL) and keeps its files until Stop.
func (n *Node) Kill() {
	if n.process != nil {
		n.process.kill()
	}
}

// Wait returns when the node has ended.
func (n *Node) Wait() {
	if n.process != nil {
		<-n.process.ended
	}
}

// PID of the server, 0 for one that the test did not start.
func (n *Node) PID() int {
	if n.process == nil {
		return 0
	}
	return n.process.cmd.Process.Pid
}

// Versions lists what Boot knows to assemble, but for versions that only fixtures and sources of the benchmark are made with.
func Versions(product string) []string {
	var all []string
	switch product {
	case "opensearch":
		all = []string{"1.3.14", "2.19.4", "3.8.0"}
	case "elasticsearch":
		for v, r := range recipes {
			if !r.rare {
				all = append(all, v)
			}
		}
	}
	slices.Sort(all)
	return all
}
