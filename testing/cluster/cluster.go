// Package cluster boots real OpenSearch and Elasticsearch nodes for tests, from published Maven artifacts, without containers. Nodes listen
// on loopback only, on free ports, and are killed with the process that started them. DESIGN.md lists the parts of each version.
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

// ErrMissing is the reason why a test is skipped: this machine lacks something that a node needs.
var ErrMissing = errors.New("missing on this machine")

// Node is one running server.
type Node struct {
	URL     string // http://127.0.0.1:port, https for a secured node
	Product string // opensearch or elasticsearch
	Version string
	Dir     string // working directory with data, logs and repos; "" if the test did not start the node
	Repos   string // directory for fs repositories (path.repo); "" if unknown

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

// Collector sets the garbage collector. The default is "Serial", which needs little memory; the servers' own default is "G1". Under load
// with Serial, OpenSearch's circuit breaker would count garbage as used memory, so it is set to count reserved memory only.
func Collector(name string) Option { return func(s *spec) { s.collector = name } }

// Secured adds TLS, basic auth and an admin client certificate (OpenSearch 1.x and 2.x only).
func Secured() Option { return func(s *spec) { s.secured = true } }

// Port sets the HTTP port on loopback of a single node; a free one is the default.
func Port(port int) Option { return func(s *spec) { s.port = port } }

// RepoDir permits fs repositories in another directory.
func RepoDir(dir string) Option { return func(s *spec) { s.repos = append(s.repos, dir) } }

// spec describes how to start a node.
type spec struct {
	product, version string
	heap             string
	collector        string // "" for Serial
	secured          bool
	settings, repos  []string
	data             string // data directory to copy; "": none
	port             int    // HTTP port; 0: a free one
	place            place
	peers            []place // all nodes of the cluster; empty for a single node
}

// OpenSearch returns a running OpenSearch node. Without options the node is shared by all tests of this process, or is the node at
// RFSD_TEST_OPENSEARCH_<version with _ for .>. The test is skipped if the machine cannot run it, or if RFSD_TESTS does not select it.
func OpenSearch(t testing.TB, version string, opts ...Option) *Node {
	t.Helper()
	return give(t, "opensearch", version, opts)
}

// Elasticsearch is like OpenSearch for Elasticsearch (RFSD_TEST_ELASTICSEARCH_…).
func Elasticsearch(t testing.TB, version string, opts ...Option) *Node {
	t.Helper()
	return give(t, "elasticsearch", version, opts)
}

// drawn skips a test that is not selected to use a real server.
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

// bootTime is the timeout of booting a node, including a first download.
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

// shared holds the nodes that all tests of a process use. No test stops them: the kernel kills them with the process (parent death signal).
type shared struct {
	mu    sync.Mutex
	nodes map[string]func() (*Node, error)
}

// sharedNodes is global because a node takes up to 45 s to start.
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

// allowed returns an error if a test may not boot a node: missing artifacts are only downloaded if RFSD_E2E is set.
func allowed(product, version string) error {
	if os.Getenv("RFSD_E2E") != "" || ready(product, version) {
		return nil
	}
	return fmt.Errorf("%s %s is not assembled yet (RFSD_E2E=1 downloads it; so does go run ./testing/cluster/boot): %w",
		product, version, ErrMissing)
}

// variable returns the name of the environment variable with the URL of a running node.
func variable(product, version string) string {
	return "RFSD_TEST_" + strings.ToUpper(product) + "_" + strings.ReplaceAll(version, ".", "_")
}

// adopt returns a running node if it has the wanted version.
func adopt(ctx context.Context, product, version, url string) (*Node, error) {
	n := &Node{URL: strings.TrimSuffix(url, "/"), Product: product, Version: version}
	// Some assemblies of Elasticsearch do not serve GET /.
	b, err := n.Send(ctx, "GET", "/_cat/nodes?h=version", "", nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable(product, version), err)
	}
	if found := slices.Compact(strings.Fields(string(b))); len(found) != 1 || found[0] != version {
		return nil, fmt.Errorf("%s: the node at %s has version %q", variable(product, version), url, found)
	}
	return n, nil
}

// Boot assembles and starts a node, and blocks until it is ready. The caller must stop it; in any case it is killed with the calling
// process. An ErrMissing names what this machine lacks.
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

// Stop ends the node, waits for it and removes its files. It does nothing for a node that the test did not start.
func (n *Node) Stop() error {
	if n.process != nil {
		n.process.stop()
	}
	if n.Dir == "" {
		return nil
	}
	return os.RemoveAll(n.Dir)
}

// Kill kills the node (SIGKILL) and keeps its files until Stop.
func (n *Node) Kill() {
	if n.process != nil {
		n.process.kill()
	}
}

// Wait blocks until the node has ended.
func (n *Node) Wait() {
	if n.process != nil {
		<-n.process.ended
	}
}

// PID returns the process id of the server; 0 if the test did not start it.
func (n *Node) PID() int {
	if n.process == nil {
		return 0
	}
	return n.process.cmd.Process.Pid
}

// Versions returns the versions that Boot can assemble, except for versions used only for fixtures and sources of the benchmark.
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
