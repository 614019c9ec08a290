package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// proxy stands before a real node; it is slow or silent on demand, and counts.
type proxy struct {
	*httptest.Server
	node      string
	delay     atomic.Int64      // of each bulk request, ns
	silent    atomic.Bool       // nothing is answered any more
	bulks     atomic.Int64      // bulk requests that arrived
	documents atomic.Int64      // in bulk requests that were passed on; bodies must not be compressed
	conflicts atomic.Int64      // answers with status 409
	before    func(path string) // of each request, when set before the first
	// held keeps a request until the channel is closed, when set before the first; then it is passed on though its client is gone.
	// isBulk: of documents.
	held     func(path string, isBulk bool, body []byte) (arrives <-chan struct{})
	mu       sync.Mutex
	firstAck time.Time // of a bulk request that the node took
	lastAck  time.Time
	paths    []string
	answers  []answered
}

// answered is a request that the node has answered.
type answered struct {
	request string // PUT /index
	status  int
}

func newProxy(t *testing.T, node string, delay time.Duration) *proxy {
	p := &proxy{node: node}
	p.delay.Store(int64(delay))
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	// The coordination creates its items by _bulk, too, but only in aliases that exist.
	isBulk := strings.HasSuffix(r.URL.Path, "/_bulk") && !r.URL.Query().Has("require_alias")
	if isBulk {
		p.bulks.Add(1)
	}
	p.mu.Lock()
	p.paths = append(p.paths, r.URL.Path)
	p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if p.silent.Load() {
		<-r.Context().Done()
		return
	}
	if p.before != nil {
		p.before(r.URL.Path)
	}
	if p.held != nil {
		if arrives := p.held(r.URL.Path, isBulk, body); arrives != nil {
			<-arrives
			r = r.WithContext(context.WithoutCancel(r.Context()))
		}
	}
	if isBulk {
		select {
		case <-time.After(time.Duration(p.delay.Load())):
		case <-r.Context().Done():
			return
		}
		if p.silent.Load() {
			<-r.Context().Done()
			return
		}
		p.documents.Add(int64(bytes.Count(body, []byte("\n")) / 2))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := &statusRecorder{ResponseWriter: w}
	forward(answer, r, p.node)
	p.mu.Lock()
	p.answers = append(p.answers, answered{r.Method + " " + r.URL.Path, answer.status})
	if isBulk && answer.status == http.StatusOK {
		p.lastAck = time.Now()
		if p.firstAck.IsZero() {
			p.firstAck = p.lastAck
		}
	}
	p.mu.Unlock()
	if answer.status == http.StatusConflict {
		p.conflicts.Add(1)
	}
}

// acknowledged returns when the node took the first and the last bulk request so far; zero times before the first.
func (p *proxy) acknowledged() (first, last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.firstAck, p.lastAck
}

// called says whether a request went to a path that holds part.
func (p *proxy) called(part string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, path := range p.paths {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}

// answered lists the requests that were answered with one of the statuses.
func (p *proxy) answered(statuses ...int) (requests []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.answers {
		if slices.Contains(statuses, a.status) {
			requests = append(requests, a.request)
		}
	}
	return requests
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// process is a running worker.
type process struct {
	*exec.Cmd
	record *os.File
	stderr bytes.Buffer
	ended  chan struct{}
	time   time.Time
}

func startWorker(t *testing.T, dir string, args []string) *process {
	t.Helper()
	in, out, err := os.Pipe()
	must(t, err)
	p := &process{Cmd: exec.Command(Binary(t, "rfsd"), args...), record: in, ended: make(chan struct{})}
	p.Dir, p.ExtraFiles, p.Stderr = dir, []*os.File{out}, &p.stderr
	err = p.Start()
	out.Close()
	must(t, err)
	go func() {
		defer close(p.ended)
		p.Wait() //nolint:errcheck // the state tells
		p.time = time.Now()
	}()
	t.Cleanup(func() {
		p.Process.Kill() //nolint:errcheck // it may be gone
		<-p.ended
		in.Close()
	})
	return p
}

// end waits for the process and gives its exit code and record; ok is false without a record.
func (p *process) end(t *testing.T) (r workerRecord, ok bool, code int) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(3 * time.Minute):
		p.Process.Kill() //nolint:errcheck // it may be gone
		<-p.ended
		t.Fatalf("the worker has not ended after three minutes: %s", p.stderr.String())
	}
	err := json.NewDecoder(p.record).Decode(&r)
	return r, err == nil, p.ProcessState.ExitCode()
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must(t, p.Process.Signal(s))
}

// until waits for a condition, at most four minutes: a busy machine may need long for what takes a second.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for begin := time.Now(); !is(); {
		now := <-ticker.C
		if now.Sub(begin) > 4*time.Minute {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
