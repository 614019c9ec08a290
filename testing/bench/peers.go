package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/rest"
)

// elasticdumpVersion is the version that npm installs if it is not in the cache.
const elasticdumpVersion = "6.125.1"

// Lines of the document that enclose the table of peers.
const (
	peersBegin = "<!-- make bench-peers writes what follows -->"
	peersEnd   = "<!-- make bench-peers wrote what precedes -->"
)

// peer is a program that copies an index from one cluster into another. run returns its resource usage; zero if no program runs.
type peer struct {
	name string
	own  bool // it creates the index itself
	run  func(ctx context.Context) (usage, error)
}

// peerRound is the cost of one migration.
type peerRound struct {
	seconds              float64 // until all documents are searchable
	tool, source, target float64 // CPU seconds
	arrived              int64   // documents
}

// peersBench is the pair of clusters.
type peersBench struct {
	o              options
	s              *source
	source, target rest.Client
	repos          string // directory for repositories of the source
	definition     []byte // definition of the index as rfsd creates it
	rounds         int    // number of rounds started
}

// comparePeers migrates one index of Elasticsearch 7.10.2 into OpenSearch with different programs, in alternating rounds, and prints a
// table.
func comparePeers(ctx context.Context, o options) (err error) {
	_, version, _ := strings.Cut(ordinaryCluster, "-")
	from, err := cluster.Boot(ctx, "elasticsearch", version, cluster.Heap(heap))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Stop()) }()
	to, err := cluster.Boot(ctx, "opensearch", o.target, cluster.Heap(heap), cluster.Collector("G1"), cluster.Setting("reindex.remote.allowlist", strings.TrimPrefix(from.URL, "http://")))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Stop()) }()
	b := &peersBench{o: o, source: rest.Client{URL: from.URL}, target: rest.Client{URL: to.URL}, repos: from.Repos}
	progress("indexing %d documents", o.peers)
	location := filepath.Join(from.Repos, "filled")
	if b.s, err = fill(ctx, b.source, location, kind{Corpus: corpus.Mixed, Codec: "default", Cluster: ordinaryCluster, Shards: ordinaryShards, Documents: o.peers}); err != nil {
		return err
	}
	b.s.Repo = location
	if err := b.source.JSON(ctx, http.MethodPost, "/"+indexName+"/_refresh", nil, nil); err != nil { // make documents searchable
		return err
	}
	peers, err := b.peers(ctx)
	if err != nil {
		return err
	}
	rounds := make([][]peerRound, len(peers))
	for i := range o.rounds + 1 {
		for j, p := range peers {
			r, err := b.round(ctx, p)
			switch {
			case err != nil && (p.own || ctx.Err() != nil):
				return fmt.Errorf("%s: %w", p.name, err)
			case err != nil: // the table shows the failure
				progress("%s: %v", p.name, err)
				continue
			}
			progress("%s: %.1f s", p.name, r.seconds)
			if i > 0 { // the first round warms the nodes up
				rounds[j] = append(rounds[j], r)
			}
		}
	}
	text := b.table(peers, rounds)
	fmt.Print(text)
	if o.document == "" {
		return nil
	}
	return replaceBetween(o.document, peersBegin, peersEnd, text)
}

// peers returns the programs that are available on this machine.
func (b *peersBench) peers(ctx context.Context) ([]peer, error) {
	index := func(c rest.Client) string { return c.URL + "/" + indexName }
	all := []peer{
		{"rfsd, from a snapshot", true, b.fromSnapshot},
		{"rfsd with `--source-host`", true, b.fromSource},
		{"`_reindex` from remote", false, func(ctx context.Context) (usage, error) {
			body := fmt.Sprintf(`{"source":{"remote":{"host":%q},"index":%q},"dest":{"index":%q}}`, b.source.URL, indexName, indexName)
			var done struct {
				Total    int64             `json:"total"`
				Failures []json.RawMessage `json:"failures"`
			}
			err := b.target.JSON(ctx, http.MethodPost, "/_reindex", body, &done)
			if err == nil && (done.Total == 0 || len(done.Failures) > 0) {
				err = fmt.Errorf("_reindex found %d documents, and failed with %s", done.Total, done.Failures[:min(len(done.Failures), 1)])
			}
			return usage{}, err
		}},
	}
	dump, err := elasticdump(ctx, b.o.cache)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		progress("not measured: elasticdump: %v", err)
	case err != nil:
		return nil, err
	default:
		all = append(all, peer{"elasticdump " + elasticdumpVersion + ", `--limit 1000`", false, func(ctx context.Context) (usage, error) {
			_, u, err := measured(ctx, "node", dump, "--input="+index(b.source), "--output="+index(b.target), "--type=data", "--limit=1000")
			return u, err
		}})
	}
	esm, err := exec.LookPath("esm")
	if err != nil {
		progress("not measured: esm is not on the path")
		return all, nil
	}
	return append(all, peer{"esm", false, func(ctx context.Context) (usage, error) {
		_, u, err := measured(ctx, esm, "-s", b.source.URL, "-x", indexName, "-d", b.target.URL, "-y", indexName, "-w", "4", "-b", "5", "-c", "1000")
		return u, err
	}}), nil
}

// elasticdump returns the path of elasticdump's script, which npm installs in the cache.
func elasticdump(ctx context.Context, cache string) (string, error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(cache, "bench", "elasticdump-"+elasticdumpVersion)
	script := filepath.Join(dir, "node_modules", "elasticdump", "bin", "elasticdump")
	if _, err := os.Stat(script); err == nil {
		return script, nil
	}
	progress("fetching elasticdump")
	if out, err := exec.CommandContext(ctx, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, "elasticdump@"+elasticdumpVersion).CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install elasticdump: %w: %s", err, tail(out))
	}
	return script, nil
}

// fromSnapshot migrates from the existing snapshot of the documents.
func (b *peersBench) fromSnapshot(ctx context.Context) (usage, error) {
	r, err := migration(ctx, b.o.rfsd, b.s, "from a snapshot", "--target-host", b.target.URL)
	return r.usage, err
}

// fromSource migrates from a snapshot that rfsd creates in a repository of its own.
func (b *peersBench) fromSource(ctx context.Context) (usage, error) {
	name := fmt.Sprintf("round%d", b.rounds)
	dir := filepath.Join(b.repos, name)
	if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)); err != nil { // the source may run as another user
		return usage{}, err
	}
	r, err := migrationFrom(ctx, b.o.rfsd, b.s, "with --source-host", []string{"--repo-uri", "file://" + dir, "--snapshot-repo-name", name, "--source-host", b.source.URL},
		"--index-allowlist", indexName, "--target-host", b.target.URL)
	return r.usage, err
}

// round migrates into a target without the index, and measures it.
func (b *peersBench) round(ctx context.Context, p peer) (r peerRound, err error) {
	b.rounds++
	if err := b.target.JSON(ctx, http.MethodDelete, "/"+indexName+"?ignore_unavailable=true", nil, nil); err != nil {
		return r, err
	}
	if !p.own {
		if err := b.target.JSON(ctx, http.MethodPut, "/"+indexName, string(b.definition), nil); err != nil {
			return r, err
		}
	}
	source, err := nodeCPU(ctx, b.source)
	if err != nil {
		return r, err
	}
	target, err := nodeCPU(ctx, b.target)
	if err != nil {
		return r, err
	}
	begin := time.Now()
	u, err := p.run(ctx)
	if err == nil {
		err = b.target.JSON(ctx, http.MethodPost, "/"+indexName+"/_refresh", nil, nil)
	}
	if err != nil {
		return r, err
	}
	r = peerRound{seconds: time.Since(begin).Seconds(), tool: u.CPUSeconds}
	if r.source, err = nodeCPU(ctx, b.source); err != nil {
		return r, err
	}
	if r.target, err = nodeCPU(ctx, b.target); err != nil {
		return r, err
	}
	r.source, r.target = r.source-source, r.target-target
	var count struct{ Count int64 }
	if err := b.target.JSON(ctx, http.MethodGet, "/"+indexName+"/_count", nil, &count); err != nil {
		return r, err
	}
	r.arrived = count.Count
	if b.definition == nil {
		b.definition, err = indexDefinition(ctx, b.target)
	}
	return r, err
}

// nodeCPU returns the CPU seconds that the only node of a cluster has used.
func nodeCPU(ctx context.Context, c rest.Client) (float64, error) {
	var stats struct {
		Nodes map[string]struct {
			Process struct {
				CPU struct {
					Total int64 `json:"total_in_millis"`
				}
			}
		}
	}
	if err := c.JSON(ctx, http.MethodGet, "/_nodes/stats/process", nil, &stats); err != nil {
		return 0, err
	}
	for _, n := range stats.Nodes {
		return float64(n.Process.CPU.Total) / 1000, nil
	}
	return 0, errors.New("the cluster reports no node")
}

// table returns the median rounds by time, with the minimum number of documents that arrived.
func (b *peersBench) table(peers []peer, rounds [][]peerRound) string {
	var t strings.Builder
	t.WriteString("| way | seconds | CPU s of the program | of the source node | of the target node | documents that arrived |\n|---|---|---|---|---|---|\n")
	for i, p := range peers {
		if len(rounds[i]) == 0 {
			fmt.Fprintf(&t, "| %s | failed | | | | |\n", p.name)
			continue
		}
		all := slices.SortedFunc(slices.Values(rounds[i]), func(x, y peerRound) int { return cmp.Compare(x.seconds, y.seconds) })
		m := all[(len(all)-1)/2]
		for _, r := range all {
			m.arrived = min(m.arrived, r.arrived)
		}
		tool := "–"
		if m.tool > 0 {
			tool = fmt.Sprintf("%.1f", m.tool)
		}
		fmt.Fprintf(&t, "| %s | %.1f | %s | %.1f | %.1f | %d |\n", p.name, m.seconds, tool, m.source, m.target, m.arrived)
	}
	fmt.Fprintf(&t, "\n%d documents, %.0f MB of source, from Elasticsearch 7.10.2 into OpenSearch %s on one machine, %s; medians of %d alternated rounds after a first one, which does not count.\n",
		b.s.Documents, float64(b.s.Bytes)/mega, b.o.target, time.Now().UTC().Format("2 January 2006"), b.o.rounds)
	return t.String()
}
