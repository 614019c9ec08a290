package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/daemon/web"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/browser"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// oneNode is a node of a migration of two shards, one of which failed.
type oneNode struct {
	mu     sync.Mutex
	wishes []string
	err    error
	behind []string // nodes that do not follow
	lines  []status.LogLine
}

func (n *oneNode) Status(context.Context) status.Report {
	left := 75.0
	return status.Report{
		Node:  status.Node{Name: "mover-1", Version: "1.0", State: "running", Wanted: 2, Running: 1},
		Stale: 42, StoreError: "no answer", Progress: progress.View{State: progress.StateWorking, GivenUp: 1, Documents: 77, Rate: 1234, Mean: 1000, SourceRate: 5e6, Share: 0.25, Left: &left},
		Migration: &progress.Migration{
			Session: "night", Snapshot: "snap", Totals: progress.Counts{Shards: 2, ShardsDone: 1, ItemsBad: 1, Bytes: 4e6, BytesDone: 1e6, Indexed: 77},
			Phases:   []progress.Phase{{Name: "documents", State: "IN_PROGRESS", Done: 1, Total: 2, Unit: "items"}},
			Indices:  []progress.Index{{Name: "logs\x1b[31m", Targets: []string{"logs"}, State: "IN_PROGRESS", Counts: progress.Counts{Shards: 2}}},
			Failures: []progress.Failure{{Reason: "segment _3: checksum", Count: 1, Examples: []string{"logs/1"}}},
		},
		Workers: []status.Worker{{Slot: 0, PID: 12, State: "working", Item: "x", Index: "logs", Shard: 0, Rate: 1234}},
	}
}

func (n *oneNode) Subscribe(ctx context.Context) <-chan struct{} {
	c := make(chan struct{})
	context.AfterFunc(ctx, func() { close(c) })
	return c
}
func (n *oneNode) Failures(ctx context.Context) (*status.Failures, error) {
	return status.NewFailures().With(n.Status(ctx).Migration), nil
}

var oneNodesItems = []status.Item{
	{ID: cms.ItemID{Index: "logs"}.String(), Index: "logs", State: status.Done, Sums: status.Sums{Indexed: 77}},
	{ID: cms.ItemID{Index: "logs", Shard: 1}.String(), Index: "logs", Shard: 1, State: status.Failed, Failure: "segment _3: checksum"},
}

func (n *oneNode) Items(ctx context.Context, f status.ItemFilter) (status.ItemList, error) {
	return status.NewItemList(n.Status(ctx).Migration, oneNodesItems, f), nil
}
func (n *oneNode) Account(ctx context.Context) (status.Account, error) {
	m := n.Status(ctx).Migration
	return status.NewAccount(m, oneNodesItems, status.NewFailures(), []status.Event{{ID: "event:1", Time: time.Now(), Subject: "logs/1", Code: "failed"}}), nil
}
func (n *oneNode) Events(context.Context, int) ([]status.Event, error) {
	return []status.Event{{Time: time.Now(), Subject: "logs/1", Code: "failed", Detail: "segment _3"}}, nil
}
func (n *oneNode) Logs(context.Context, int) []status.LogLine {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines)
}
func (n *oneNode) Metrics() http.Handler { return http.NotFoundHandler() }
func (n *oneNode) Healthy() error        { return nil }
func (n *oneNode) Ready() error          { return nil }
func (n *oneNode) wish(s string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wishes = append(n.wishes, s)
	return n.err
}
func (n *oneNode) Order(_ context.Context, o session.Order) (status.Ordered, error) {
	words := append([]string{string(o.Kind)}, o.Nodes...)
	if o.Workers != nil {
		words = append(words, strconv.Itoa(*o.Workers))
	}
	return status.Ordered{Intent: progress.Intent{State: "pause", By: "ann", Revision: 7}, NotFollowing: n.behind}, n.wish(strings.Join(words, " "))
}

// serveNode serves a node until the test ends and gives its operators' and its readers' sockets.
func serveNode(t *testing.T, conf api.Config, n api.Node) (*api.Server, string, string) {
	t.Helper()
	dir := t.TempDir()
	conf.Socket, conf.StatusSocket = filepath.Join(dir, "o"), filepath.Join(dir, "s")
	conf.Page, conf.Log = web.Handler(), slog.New(slog.DiscardHandler)
	s, err := api.New(conf, n)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
	return s, conf.Socket, conf.StatusSocket
}

func TestAnOperatorSeesAndSteersThroughAnyNode(t *testing.T) {
	n := &oneNode{lines: []status.LogLine{status.LogLine(`{"msg":"one"}`), status.LogLine(`{"msg":"two"}`)}}
	_, operator, reader := serveNode(t, api.Config{}, n)
	dead := filepath.Join(t.TempDir(), "dead")
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"status"}, 7, []string{"mover-1", "session night", "no answer", "42s old", "1 of 2 shards", "1,234 documents/s (mean 1,000)", "about 1m15s left", "1 given up", "session night: working", "documents", "segment _3", "logs"}},
		{[]string{"status", "--exit-status"}, 7, nil},
		{[]string{"failures"}, 7, []string{"given up: logs/1: segment _3: checksum", "logs/1"}},
		{[]string{"events"}, 0, []string{"failed", "logs/1"}},
		{[]string{"logs"}, 0, []string{`{"msg":"one"}` + "\n" + `{"msg":"two"}`}},
		{[]string{"nodes"}, 0, []string{"mover-1"}},
		{[]string{"items", "list"}, 0, []string{"2 items", "segment _3"}},
		{[]string{"items", "list", "--state", "failed"}, 0, []string{"2 items: 1 done, 1 failed", "segment _3"}},
		{[]string{"items", "show"}, 0, []string{"state                      failed"}},
		{[]string{"report"}, 0, []string{"1 done, 1 failed", "given up: logs/1: segment _3: checksum", "failed           logs/1"}},
		{[]string{"pause"}, 0, []string{"the fleet: paused (sent to"}},
		{[]string{"resume"}, 0, []string{"resumed"}},
		{[]string{"drain"}, 0, []string{"draining"}},
		{[]string{"scale"}, 0, []string{"8 workers"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			args := append(c.args, "--node", dead+","+operator)
			switch {
			case c.args[0] == "scale":
				args = append(args, "8")
			case len(c.args) > 1 && c.args[1] == "show":
				args = append(args, cms.ItemID{Index: "logs", Shard: 1}.String())
			}
			code, out, errs := rfsctl(t, args...)
			if code != c.code {
				t.Errorf("exit %d: %s", code, errs)
			}
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					t.Errorf("no %q in\n%s", w, out)
				}
			}
			if strings.Contains(out, "\x1b") {
				t.Errorf("an index's name steers the terminal: %q", out)
			}
		})
	}
	if want := []string{"pause", "resume", "drain", "scale 8"}; !slices.Equal(n.wishes, want) {
		t.Errorf("wishes %q, want %q", n.wishes, want)
	}
	for _, args := range [][]string{{"pause"}, {"scale", "auto"}, {"logs"}} {
		code, _, errs := rfsctl(t, append([]string{args[0], "--node", reader}, args[1:]...)...)
		if code != 1 || !strings.Contains(errs, "reader may not") {
			t.Errorf("a reader's %s: exit %d, %s", args, code, errs)
		}
	}
	var r status.Report
	_, out, _ := rfsctl(t, "status", "--node", reader, "--output", "json")
	if err := outputtest.Decode(out, &r); err != nil || r.Stale != 42 || r.Migration.Totals.Indexed != 77 {
		t.Errorf("%v %s", err, out)
	}
}

func TestThatNoNodeAnswersIsSaidOfEach(t *testing.T) {
	dir := t.TempDir()
	code, _, errs := rfsctl(t, "status", "--node", filepath.Join(dir, "a")+","+filepath.Join(dir, "b"))
	if code != 1 || strings.Count(errs, "does not answer") != 2 {
		t.Errorf("exit %d: %s", code, errs)
	}
	code, _, errs = rfsctl(t, "status", "--node", "192.0.2.1:9310")
	if code != 1 || !strings.Contains(errs, "--tls-cert, --tls-key, --tls-ca") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestAnswersComeAtOnceWhileTheStoreIsABlackHole checks that a real daemon answers within a second though its coordination store never does.
func TestAnswersComeAtOnceWhileTheStoreIsABlackHole(t *testing.T) {
	d := daemon.New(daemon.Config{
		Name: "lonely", Workers: 1, Log: slog.New(slog.DiscardHandler), Starter: noStarter{},
		Open: func(ctx context.Context) (*cms.Coordinator, error) {
			<-ctx.Done()
			return nil, errors.Join(ctx.Err(), fault.ErrUnavailable)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() { cancel(); must(t, <-ended) }()
	_, socket, _ := serveNode(t, api.Config{}, d)
	for _, command := range []string{"status", "events", "logs", "nodes"} {
		fastest := time.Hour // of three: the machine may be busy with something else
		for range 3 {
			begin := time.Now()
			code, _, errs := rfsctl(t, command, "--node", socket)
			if fastest = min(fastest, time.Since(begin)); code != 0 {
				t.Errorf("%s: exit %d, %s", command, code, errs)
			}
		}
		if fastest > time.Second { // the store is waited for longer
			t.Errorf("%s took %v", command, fastest)
		}
	}
}

type noStarter struct{ daemon.Starter }

func TestTheAgeOfWhatIsShownIsTold(t *testing.T) {
	n := &oneNode{}
	_, socket, _ := serveNode(t, api.Config{}, n)
	_, out, _ := rfsctl(t, "status", "--node", socket)
	if !strings.Contains(out, "what follows is 42s old") {
		t.Error(out)
	}
}

// certificates makes a fleet's and gives their directory.
func certificates(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	for _, role := range []string{"node", "operator", "reader"} {
		code, out, errs := rfsctl(t, "cert", "create", "--dir", dir, "--fleet", "test", "--role", role, role)
		if code != 0 || !strings.Contains(out, role+".crt") {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
	}
	return dir
}

func TestCertificatesOfTheCommandOpenTheRightDoors(t *testing.T) {
	dir := certificates(t)
	for _, key := range []string{"ca.key", "node.key", "operator.key", "reader.key"} {
		info, err := os.Stat(filepath.Join(dir, key))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", key, info.Mode())
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, "node.crt"))
	must(t, err)
	if code, _, errs := rfsctl(t, "cert", "create", "--dir", dir, "--fleet", "test", "node"); code != 1 || !strings.Contains(errs, "not overwritten") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "node.crt")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the certificate is another now: %v", err)
	}
	id, err := cert.Load(cert.Files{Cert: filepath.Join(dir, "node.crt"), Key: filepath.Join(dir, "node.key"), CA: filepath.Join(dir, "ca.crt")}, "test")
	must(t, err)
	n := &oneNode{}
	s, _, _ := serveNode(t, api.Config{Listen: "127.0.0.1:0", Identity: id}, n)
	as := func(role string, args ...string) (int, string) {
		if !slices.Contains(args, "--fleet") {
			args = append(args, "--fleet", "test")
		}
		args = append(args, "--node", s.Addr(), "--tls-ca", filepath.Join(dir, "ca.crt"),
			"--tls-cert", filepath.Join(dir, role+".crt"), "--tls-key", filepath.Join(dir, role+".key"))
		code, _, errs := rfsctl(t, args...)
		return code, errs
	}
	for _, role := range []string{"node", "operator", "reader"} {
		if code, errs := as(role, "status"); code != 7 {
			t.Errorf("%s may not see the status: %d %s", role, code, errs)
		}
		if code, errs := as(role, "pause"); (code == 0) != (role == "operator") {
			t.Errorf("pause as %s: exit %d, %s", role, code, errs)
		}
	}
	if code, errs := as("operator", "status", "--fleet", "other"); code == 6 {
		t.Errorf("a node of another fleet is believed: %d %s", code, errs)
	}
}

// proxied starts the page's proxy for a node behind a socket.
func proxied(t *testing.T, n api.Node) *pageProxy {
	t.Helper()
	_, socket, _ := serveNode(t, api.Config{}, n)
	node := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p, err := newPageProxy(l.Addr(), node, "http://rfsd")
	must(t, err)
	server := &http.Server{Handler: p}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return p
}

func TestThePageOpensOnceAndOnlyReads(t *testing.T) {
	n := &oneNode{}
	p := proxied(t, n)
	ask := func(c *http.Client, method, address string, change func(*http.Request)) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		must(t, err)
		if change != nil {
			change(req)
		}
		res, err := c.Do(req)
		must(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		must(t, err)
		return res.StatusCode, string(b)
	}
	base := "http://" + p.host
	if !regexp.MustCompile(`^[0-9a-f]{32}\.localhost:\d+$`).MatchString(p.host) {
		t.Errorf("the page's host is %s", p.host)
	}
	// As browsers do: names under .localhost are loopback.
	resolved := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}}
	stranger := &http.Client{Transport: resolved}
	jar, err := cookiejar.New(nil)
	must(t, err)
	user := &http.Client{Jar: jar, Transport: resolved}
	for _, address := range []string{base + "/", base + "/v1/status", base + "/?token=", base + "/?token=" + strings.Repeat("0", 64)} {
		if code, _ := ask(stranger, "GET", address, nil); code != http.StatusForbidden {
			t.Errorf("a stranger's %s: %d", address, code)
		}
	}
	address := p.address()
	if code, body := ask(user, "GET", address, nil); code != 200 || !strings.Contains(body, "<title>rfsd</title>") {
		t.Fatalf("%d %s", code, body)
	}
	if code, _ := ask(stranger, "GET", address, nil); code != http.StatusForbidden {
		t.Errorf("the token opens twice: %d", code)
	}
	if code, body := ask(user, "GET", base+"/v1/events", nil); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	for _, path := range []string{"/v1/logs", "/v1/status", "/v1/items", "/metrics", "/page/../v1/logs", "/page/..%2fv1/logs", "/page/", "//v1/logs"} {
		if code, body := ask(user, "GET", base+path, nil); code != http.StatusForbidden || !strings.Contains(body, "not part of the page") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _ := ask(user, "POST", base+"/v1/pause", nil); code != http.StatusMethodNotAllowed || len(n.wishes) != 0 {
		t.Errorf("the page steers: %d, %v", code, n.wishes)
	}
	if code, _ := ask(user, "GET", base+"/v1/events", func(r *http.Request) { r.Host = "evil.example" }); code != http.StatusForbidden {
		t.Errorf("under another name: %d", code)
	}
	if code, _ := ask(user, "GET", base+"/v1/events", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }); code != http.StatusForbidden {
		t.Errorf("from another site: %d", code)
	}
	u, err := url.Parse(base)
	must(t, err)
	if len(jar.Cookies(u)) != 1 {
		t.Errorf("cookies %v", jar.Cookies(u))
	}
	for _, other := range []string{"http://127.0.0.1:1/", "http://localhost:1/", "http://other.localhost:1/"} {
		u, err := url.Parse(other)
		must(t, err)
		if got := jar.Cookies(u); len(got) != 0 {
			t.Errorf("%s gets %v", other, got)
		}
	}
}

func TestThePageIsLiveThroughTheProxyInARealBrowser(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	b, err := browser.Start(ctx)
	if errors.Is(err, browser.ErrNone) {
		t.Skip("not run: ", err)
	}
	must(t, err)
	defer b.Close()
	p := proxied(t, &oneNode{})
	// As rfsctl has the browser come: from a file.
	page := filepath.Join(t.TempDir(), "page.html")
	must(t, os.WriteFile(page, []byte(`<!doctype html><meta http-equiv="refresh" content="0;url=`+p.address()+`">`), 0o600))
	must(t, b.Open(ctx, "file://"+page))
	must(t, b.Wait(ctx, "document.querySelectorAll('#workers tbody tr').length === 1 && /mover-1/.test(document.getElementById('node').textContent)"))
}

// TestMain runs the program instead of its tests when it is called by the program's name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "rfsctl" {
		main()
	}
	os.Exit(m.Run())
}

func TestCompletionScriptsCompleteCommands(t *testing.T) {
	for shell, want := range map[string]string{"bash": "complete -o", "zsh": "#compdef rfsctl", "fish": "complete -c rfsctl"} {
		code, out, errs := rfsctl(t, "completion", shell)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d %s %s", shell, code, out, errs)
		}
		program, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("not checked by the shell itself: %s is not installed", shell)
			continue
		}
		script := filepath.Join(t.TempDir(), "script")
		must(t, os.WriteFile(script, []byte(out), 0o600))
		if b, err := exec.CommandContext(t.Context(), program, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s does not read its script: %v %s", shell, err, b)
		}
	}
	if code, _, _ := rfsctl(t, "completion", "tcsh"); code != 1 {
		t.Errorf("tcsh: exit %d", code)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("not run: bash is not installed")
	}
	dir := t.TempDir()
	program, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(program, dir+"/rfsctl"))
	repository, err := filepath.Abs(filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo"))
	must(t, err)
	cmd := exec.CommandContext(t.Context(), bash, "-c", `source <(rfsctl completion bash)
for line in "rfsctl sta" "rfsctl items re" "rfsctl snapshot show --repo-uri $REPO --snapshot-name " "rfsctl snapshot diff --repo-uri=$REPO --index-allowlist=o"; do
  COMP_LINE=$line COMP_POINT=${#line}; _rfsctl; echo "${COMPREPLY[@]}"
done`)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "REPO="+repository)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "status\nretry\nsnap1\norders\n" {
		t.Errorf("bash completes to %q, %v", out, err)
	}
}

// TestLogs_HasAShortOptionToFollow asks a node that does not answer.
func TestLogs_HasAShortOptionToFollow(t *testing.T) {
	if code, _, errs := rfsctl(t, "logs", "-f", "--node", filepath.Join(t.TempDir(), "none.sock")); code != 1 || strings.Contains(errs, "option") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, text, _ := rfsctl(t, "logs", "--help"); !strings.Contains(text, "print new ones") {
		t.Errorf("the help of --follow: %s", text)
	}
}
