package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/rfsd/rfsd/testing/answers"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/rest"
)

// unprivileged is the id of the user that servers run as if this program runs as root.
const unprivileged = 65534

// lab makes one fixture: a repository that several nodes write in sequence, and the documents that they reported.
type lab struct {
	rest.Client // of the running node

	name string
	dir  string
	node *cluster.Node
	data string // data directory of the next node; "": an empty one
	// truths are the documents by snapshot; "": of all snapshots.
	truths map[string][]document
	// sent are the documents as they were sent, if the clusters return less; otherwise nil.
	sent []document
	// stripped are the stored sources (Line), if the cluster returns more; otherwise nil.
	stripped []document
	// answers are the cluster's answers to searches of the indices, if any.
	answers []answers.Search
	// accounts are the clusters' reports about each snapshot.
	accounts []account
}

func newLab(name string) (*lab, error) {
	dir, err := os.MkdirTemp("", "rfsd-snapgen-")
	if err != nil {
		return nil, err
	}
	l := &lab{name: name, dir: dir, truths: map[string][]document{}}
	return l, errors.Join(os.Mkdir(l.repo(), 0o755), os.Chmod(dir, 0o755))
}

// repo returns the directory of the repository.
func (l *lab) repo() string { return filepath.Join(l.dir, "repo") }

func (l *lab) close() error {
	return errors.Join(l.stop(), os.RemoveAll(l.dir))
}

// boot starts a node ("7.10.2" is Elasticsearch, "os2.19.4" OpenSearch) that can write to the repository.
func (l *lab) boot(ctx context.Context, version string, opts ...cluster.Option) error {
	if err := l.start(ctx, version, opts...); err != nil {
		return err
	}
	return l.WaitReady(ctx)
}

// bootWounded starts a node whose data lacks shards, and waits for the other active ones.
func (l *lab) bootWounded(ctx context.Context, version string, active int) error {
	if err := l.start(ctx, version); err != nil {
		return err
	}
	return l.put(ctx, http.MethodGet, fmt.Sprintf("/_cluster/health?wait_for_active_shards=%d&timeout=60s", active), nil)
}

func (l *lab) start(ctx context.Context, version string, opts ...cluster.Option) error {
	if err := l.stop(); err != nil {
		return err
	}
	product := "elasticsearch"
	if v, ok := strings.CutPrefix(version, "os"); ok {
		product, version = "opensearch", v
	}
	if err := l.handOver(); err != nil {
		return err
	}
	opts = append(opts, cluster.RepoDir(l.dir))
	if l.data != "" {
		opts = append(opts, cluster.DataFrom(l.data))
	}
	node, err := cluster.Boot(ctx, product, version, opts...)
	if err != nil {
		return err
	}
	l.node = node
	l.Client, err = node.Client()
	return err
}

// handOver makes the repository writable for servers, which refuse to run as root.
func (l *lab) handOver() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(l.repo(), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, unprivileged, unprivileged)
	})
}

func (l *lab) stop() error {
	if l.node == nil {
		return nil
	}
	node := l.node
	l.node = nil
	return node.Stop()
}

// park stops the node and keeps its data for the next one.
func (l *lab) park(ctx context.Context) error {
	if err := l.put(ctx, http.MethodPost, "/_flush", nil); err != nil {
		return err
	}
	l.node.Kill()
	from := filepath.Join(l.node.Dir, "data")
	if old, err := filepath.Glob(filepath.Join(from, "*", "nodes")); err == nil && len(old) == 1 {
		from = filepath.Dir(old[0]) // up to 2.x below the name of the cluster, which differs each time
	}
	data, err := os.MkdirTemp(l.dir, "data-")
	if err != nil {
		return err
	}
	if err := os.CopyFS(data, os.DirFS(from)); err != nil {
		return fmt.Errorf("keeping the data: %w", err)
	}
	l.data = data
	return l.stop()
}

// put sends a JSON body and expects success.
func (l *lab) put(ctx context.Context, method, path string, body any) error {
	return l.JSON(ctx, method, path, body, nil)
}

// steps runs requests in order, each "METHOD path" with a body.
func (l *lab) steps(ctx context.Context, steps ...step) error {
	for _, s := range steps {
		method, path, ok := strings.Cut(s.request, " ")
		if !ok {
			return fmt.Errorf("no request: %q", s.request)
		}
		var body any
		if s.body != "" {
			body = s.body
		}
		if strings.HasSuffix(path, "/_bulk") {
			if err := l.Bulk(ctx, path, []byte(s.body)); err != nil {
				return err
			}
			continue
		}
		if err := l.put(ctx, method, path, body); err != nil {
			return err
		}
	}
	return nil
}

type step struct{ request, body string }

// typed reports whether the APIs of this node have mapping types in paths and actions.
func (l *lab) typed() bool {
	return l.node.Product == "elasticsearch" && l.node.Version < "7"
}

// register registers the repository with the node.
func (l *lab) register(ctx context.Context, settings map[string]any) error {
	all := map[string]any{"location": l.repo()}
	for k, v := range settings {
		all[k] = v
	}
	return l.put(ctx, http.MethodPut, "/_snapshot/fixture", map[string]any{"type": "fs", "settings": all})
}

// account is the cluster's own report about a snapshot.
type account struct {
	Version  string          `json:"version"`
	Name     string          `json:"snapshot"`
	Info     json.RawMessage `json:"info"`
	Indices  json.RawMessage `json:"indices"`
	Segments string          `json:"segments,omitempty"`
}

// snapshot takes a snapshot of the indices ("": all). want is its expected final state.
func (l *lab) snapshot(ctx context.Context, name, indices, want string, partial bool) error {
	body := map[string]any{"include_global_state": true, "partial": partial}
	if indices != "" {
		body["indices"] = indices
	}
	// A FAILED snapshot is also reported as an error, so the state decides.
	err := l.put(ctx, http.MethodPut, "/_snapshot/fixture/"+name+"?wait_for_completion=true", body)
	if err != nil && want != "FAILED" {
		return err
	}
	a := account{Version: l.node.Product + " " + l.node.Version, Name: name}
	var info struct {
		Snapshots []struct{ State string }
	}
	if a.Info, err = l.Send(ctx, http.MethodGet, "/_snapshot/fixture/"+name, "", nil); err != nil {
		return err
	}
	if err := json.Unmarshal(a.Info, &info); err != nil || len(info.Snapshots) != 1 || info.Snapshots[0].State != want {
		return fmt.Errorf("snapshot %s: want state %s, got %s: %w", name, want, a.Info, err)
	}
	if a.Indices, err = l.Send(ctx, http.MethodGet, "/_all", "", nil); err != nil {
		return err
	}
	segments, err := l.Send(ctx, http.MethodGet, "/_cat/segments?v", "", nil)
	if err != nil {
		return err
	}
	a.Segments = string(segments)
	l.accounts = append(l.accounts, a)
	return nil
}

// take records the live documents of the indices as the truth of a snapshot, and takes the snapshot.
func (l *lab) take(ctx context.Context, name, indices string) error {
	if err := l.put(ctx, http.MethodPost, "/_refresh", nil); err != nil {
		return err
	}
	docs, err := l.dump(ctx, indices)
	if err != nil {
		return err
	}
	l.truths[name] = docs
	return l.snapshot(ctx, name, indices, "SUCCESS", false)
}

// takeAll is like take, for a snapshot of all indices: OpenSearch pins a remote store only for a snapshot that names none.
func (l *lab) takeAll(ctx context.Context, name, indices string) error {
	docs, err := l.dump(ctx, indices)
	if err != nil {
		return err
	}
	l.truths[name] = docs
	return l.snapshot(ctx, name, "", "SUCCESS", false)
}

// ask records the cluster's answers to searches of its indices.
func (l *lab) ask(ctx context.Context, indices ...string) error {
	if err := l.put(ctx, http.MethodPost, "/_refresh", nil); err != nil {
		return err
	}
	for _, index := range indices {
		answered, err := answers.Record(ctx, l.Client, index)
		if err != nil {
			return fmt.Errorf("%s: %w", index, err)
		}
		l.answers = append(l.answers, answered...)
	}
	return nil
}
