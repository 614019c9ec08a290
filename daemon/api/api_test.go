package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// fakeNode records the calls.
type fakeNode struct {
	mu      sync.Mutex
	wishes  []string
	changed chan struct{}
	err     error
	failed  *status.Failures
}

func (n *fakeNode) wish(s string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wishes = append(n.wishes, s)
	return n.err
}

func (n *fakeNode) Status(context.Context) status.Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	return status.Report{Node: status.Node{Name: "n1", State: fmt.Sprint("wishes ", len(n.wishes))}, Workers: []status.Worker{}}
}
func (n *fakeNode) Subscribe(context.Context) <-chan struct{} { return n.changed }
func (n *fakeNode) Failures(context.Context) (*status.Failures, error) {
	return n.failed.With(&progress.Migration{}), n.err
}
func (n *fakeNode) Items(_ context.Context, f status.ItemFilter) (status.ItemList, error) {
	return status.ItemList{Items: []status.Item{{ID: f.ID + "/" + f.Index + "/" + strings.Join(f.States, "+") + "/" + fmt.Sprint(f.Limit)}}}, nil
}
func (n *fakeNode) Account(context.Context) (status.Account, error)     { return status.Account{}, n.err }
func (n *fakeNode) Events(context.Context, int) ([]status.Event, error) { return nil, nil }
func (n *fakeNode) Logs(context.Context, int) []status.LogLine          { return nil }
func (n *fakeNode) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
}
func (n *fakeNode) Order(_ context.Context, o session.Order) (status.Ordered, error) {
	words := append([]string{string(o.Kind)}, o.Nodes...)
	if o.Value != nil {
		words = append(words, o.Setting, fmt.Sprint(*o.Value))
	}
	if o.Workers != nil {
		words = append(words, fmt.Sprint(*o.Workers))
	}
	err := n.wish(strings.Join(append(words, o.Who), " "))
	return status.Ordered{Intent: progress.Intent{State: string(o.Kind), By: o.Who, Revision: 7}, NotFollowing: []string{"n2"}}, err
}
func (n *fakeNode) Healthy() error { return nil }
func (n *fakeNode) Ready() error   { return n.err }

func serve(t *testing.T, conf Config, n *fakeNode) *Server {
	t.Helper()
	conf.Log = slog.New(slog.DiscardHandler)
	s, err := New(conf, n)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	return s
}

func over(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
}

func ask(t *testing.T, c *http.Client, method, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestTheOperatorsSocketSteersAndTheOtherReads(t *testing.T) {
	dir, n := t.TempDir(), &fakeNode{}
	serve(t, Config{Socket: filepath.Join(dir, "op"), StatusSocket: filepath.Join(dir, "ro")}, n)
	op, ro := over(filepath.Join(dir, "op")), over(filepath.Join(dir, "ro"))
	for _, c := range []struct {
		client             *http.Client
		method, path, body string
		code               int
		answer             string
	}{
		{op, "GET", "/v1/status", "", 200, `"name":"n1"`},
		{ro, "GET", "/v1/status", "", 200, `"name":"n1"`},
		{op, "POST", "/v1/pause", "", 200, `{"intent":{"state":"pause","by":"socket","revision":7},"not_following":["n2"]}`},
		{op, "POST", "/v1/scale", `{"workers":7}`, 200, `"scale"`},
		{op, "POST", "/v1/scale", `{"workers":null}`, 200, `"scale"`},
		{op, "POST", "/v1/set", `{"setting":"max-rate","value":7}`, 200, `"set"`},
		{ro, "POST", "/v1/set", `{"setting":"max-rate","value":7}`, 403, "the role reader may not"},
		{op, "POST", "/v1/drain", `{"nodes":["n1","n2"]}`, 200, `"drain"`},
		{op, "POST", "/v1/scale", `{"wokers":7}`, 400, "wokers"},
		{op, "POST", "/v1/scale", `{"workers":` + strings.Repeat(" ", maxBody) + `7}`, 400, "too large"},
		{ro, "POST", "/v1/pause", "", 403, "the role reader may not"},
		{ro, "GET", "/v1/logs", "", 403, "the role reader may not"},
		{ro, "GET", "/v1/items?id=x&index=logs&state=failed&state=done&limit=5", "", 200, "x/logs/failed+done/5"},
		{ro, "GET", "/v1/items?limit=-5", "", 400, "limit"},
		{ro, "GET", "/v1/failures", "", 200, `{"given_up":[],"groups":[],"documents":[],"documents_failed":0}`},
		{ro, "GET", "/metrics", "", 200, "up 1"},
		{ro, "GET", "/readyz", "", 200, `"ok"`},
		{ro, "GET", "/v2/status", "", 404, ""},
		{ro, "DELETE", "/v1/status", "", 405, ""},
	} {
		code, answer := ask(t, c.client, c.method, "http://rfsd"+c.path, c.body)
		if code != c.code || !strings.Contains(answer, c.answer) {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, answer)
		}
	}
	if want := []string{"pause socket", "scale 7 socket", "scale socket", "set max-rate 7 socket", "drain n1 n2 socket"}; !slices.Equal(n.wishes, want) {
		t.Errorf("wishes %v", n.wishes)
	}
	n.err = fmt.Errorf("no answer: %w", fault.ErrUnavailable)
	if code, answer := ask(t, op, "POST", "http://rfsd/v1/drain", ""); code != 503 || !strings.Contains(answer, `"category":"unavailable"`) {
		t.Errorf("%d %s", code, answer)
	}
	for _, c := range []struct {
		name   string
		err    error
		code   int
		answer string
	}{
		{"an outcome that is unknown", fmt.Errorf("%w: no answer", session.ErrOrderUnknown), 504, `"category":"unknown"}`},
		{"an order to the contrary is in force", fmt.Errorf("newer: %w", fault.ErrRejected), 409, `"category":"rejected"}`},
		{"an invalid order", fmt.Errorf("bad: %w", fault.ErrConfig), 400, `"category":"config"}`},
		{"a store that does not answer", fmt.Errorf("silent: %w", fault.ErrUnavailable), 503, `"category":"unavailable"}`},
	} {
		n.err = c.err
		if code, answer := ask(t, op, "POST", "http://rfsd/v1/drain", ""); code != c.code || !strings.Contains(answer, c.answer) {
			t.Errorf("%s: %d %s", c.name, code, answer)
		}
	}
	if code, _ := ask(t, ro, "GET", "http://rfsd/readyz", ""); code != 503 {
		t.Errorf("ready: %d", code)
	}
}

// TestIDsOfDocumentsAreForOperators: ids may contain personal data, and the status socket is for every user of the machine.
func TestIDsOfDocumentsAreForOperators(t *testing.T) {
	dir := t.TempDir()
	n := &fakeNode{failed: status.NewFailures()}
	n.failed.Add(session.Refused{Index: "logs", ID: "John-Doe", Reason: "mapper_parsing_exception"}, "")
	n.failed.Add(session.Refused{Index: "people", ID: "Jane", Reason: "mapper_parsing_exception"}, "")
	serve(t, Config{Socket: filepath.Join(dir, "op"), StatusSocket: filepath.Join(dir, "ro")}, n)
	for socket, want := range map[string]bool{"op": true, "ro": false} {
		code, answer := ask(t, over(filepath.Join(dir, socket)), "GET", "http://rfsd/v1/failures?index=logs", "")
		if code != 200 || strings.Contains(answer, "John-Doe") != want || strings.Contains(answer, `"documents_omitted":1`) == want || !strings.Contains(answer, `"count":1`) || strings.Contains(answer, "people") {
			t.Errorf("%s: %d %s", socket, code, answer)
		}
	}
}

func TestFollowersSeeEveryChange(t *testing.T) {
	dir, n := t.TempDir(), &fakeNode{changed: make(chan struct{}, 1)}
	serve(t, Config{Socket: filepath.Join(dir, "op")}, n)
	c := over(filepath.Join(dir, "op"))
	follow := func() *http.Response {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://rfsd/v1/stream", nil)
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first := follow()
	lines := bufio.NewScanner(first.Body)
	next := func() (r status.Report) {
		for lines.Scan() {
			if b, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(b), &r); err != nil {
					t.Fatal(err)
				}
				return r
			}
		}
		t.Fatal("the stream ended", lines.Err())
		return r
	}
	if r := next(); r.Node.State != "wishes 0" {
		t.Errorf("%+v", r.Node)
	}
	_ = n.wish("x")
	n.changed <- struct{}{}
	if r := next(); r.Node.State != "wishes 1" {
		t.Errorf("%+v", r.Node)
	}
	first.Body.Close()
}

func TestNothingListensForOthersWithoutCertificates(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		if _, err := New(Config{Listen: address, Log: slog.New(slog.DiscardHandler)}, &fakeNode{}); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "--tls-cert") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestOtherSitesMayNotAskThroughABrowser(t *testing.T) {
	s := serve(t, Config{Listen: "127.0.0.1:0", Hosts: []string{"status.example"}}, &fakeNode{})
	c := &http.Client{}
	for _, x := range []struct {
		header []string
		code   int
	}{
		{nil, 200},
		{[]string{"Host", "evil.example"}, 403},
		{[]string{"Host", "status.example"}, 200},
		{[]string{"Origin", "http://evil.example"}, 403},
		{[]string{"Origin", "http://" + s.Addr()}, 200},
		{[]string{"Origin", "https://" + s.Addr()}, 403},
		{[]string{"Origin", "null"}, 403},
	} {
		if code, answer := ask(t, c, "GET", "http://"+s.Addr()+"/v1/status", "", x.header...); code != x.code {
			t.Errorf("%v: %d %s", x.header, code, answer)
		}
	}
	if code, _ := ask(t, c, "POST", "http://"+s.Addr()+"/v1/pause", ""); code != 403 {
		t.Errorf("loopback without a certificate paused the fleet: %d", code)
	}
}

// identities creates certificates of a fleet by role, and some that must be rejected.
func identities(t *testing.T) map[string]*cert.Identity {
	t.Helper()
	all := map[string]*cert.Identity{}
	now := time.Now()
	for _, fleet := range []struct{ dir, name string }{{t.TempDir(), "blue"}, {t.TempDir(), "blue"}} {
		if _, err := cert.CreateAuthority(fleet.dir, fleet.name, now.Add(-30*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		for _, role := range cert.Roles {
			for _, life := range []struct {
				name string
				at   time.Time
			}{{"", now}, {"expired ", now.Add(-20 * 24 * time.Hour)}} {
				name := strings.TrimSpace(life.name) + string(role)
				if err := cert.Create(fleet.dir, cert.Request{Fleet: fleet.name, Name: name, Role: role, Life: 10 * 24 * time.Hour}, life.at); err != nil {
					t.Fatal(err)
				}
				id, err := cert.Load(cert.Files{Cert: filepath.Join(fleet.dir, name+".crt"), Key: filepath.Join(fleet.dir, name+".key"), CA: filepath.Join(fleet.dir, cert.CAFile)}, fleet.name)
				if err != nil {
					t.Fatal(err)
				}
				key := life.name + string(role)
				if all[key] != nil {
					key = "stranger " + string(role)
				}
				all[key] = id
			}
		}
	}
	return all
}

// TestOnlyTheRightRolePasses requests every route in every way.
func TestOnlyTheRightRolePasses(t *testing.T) {
	ids := identities(t)
	n := &fakeNode{changed: make(chan struct{})}
	s := serve(t, Config{Listen: "127.0.0.1:0", Identity: ids["node"], Page: http.NotFoundHandler()}, n)
	base := "https://" + s.Addr()
	clients := map[string]*http.Client{"plaintext": {}}
	for name, id := range ids {
		conf, err := id.Client()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "stranger") { // it believes the node; the node must not believe it
			right, err := ids["node"].Client()
			if err != nil {
				t.Fatal(err)
			}
			conf.RootCAs = right.RootCAs
		}
		clients[name] = &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	}
	for name, change := range map[string]func(*tls.Config){
		"no certificate": func(c *tls.Config) { c.Certificates = nil },
		"TLS 1.2":        func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
	} {
		conf, err := ids["operator"].Client()
		if err != nil {
			t.Fatal(err)
		}
		change(conf)
		clients[name] = &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	}
	rows := 0
	for name, c := range clients {
		for _, r := range routes() {
			rows++
			path := strings.NewReplacer("{$}", "", "{file}", "x").Replace(r.path)
			url := base + path
			if name == "plaintext" {
				url = "http://" + s.Addr() + path
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			req, _ := http.NewRequestWithContext(ctx, r.method, url, nil)
			res, err := c.Do(req)
			code := 0
			if err == nil {
				code = res.StatusCode
				res.Body.Close()
			}
			cancel()
			mayPass := slices.Contains(r.roles, cert.Role(name))
			switch {
			case mayPass && (code == 0 || code == http.StatusForbidden):
				t.Errorf("%s may %s %s, and got %d %v", name, r.method, r.path, code, err)
			case !mayPass && slices.Contains(cert.Roles, cert.Role(name)) && code != http.StatusForbidden:
				t.Errorf("%s may not %s %s, and got %d %v", name, r.method, r.path, code, err)
			case !mayPass && !slices.Contains(cert.Roles, cert.Role(name)) && code != 0 && code != http.StatusBadRequest:
				t.Errorf("%s: %s %s got %d", name, r.method, r.path, code)
			}
		}
	}
	t.Logf("%d rows", rows)
	if len(n.wishes) != 5 || slices.ContainsFunc(n.wishes, func(w string) bool { return !strings.HasSuffix(w, " operator operator") }) {
		t.Errorf("wishes %v", n.wishes)
	}
}

func TestOnlyNodesSpeakRaftOverThePort(t *testing.T) {
	ids := identities(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	streams := NewStreams(ids["node"], address)
	serve(t, Config{Listen: address, Identity: ids["node"], Raft: streams}, &fakeNode{})
	here := streams.Open()
	defer here.Close()
	go func() {
		for {
			c, err := here.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	conn, err := here.Dial(address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "hello" {
		t.Fatalf("%q %v", b, err)
	}
	conn.Close()
	for _, name := range []string{"operator", "reader", "stranger node", "expired node"} {
		conf, err := ids[name].Client(RaftProtocol)
		if err != nil {
			t.Fatal(err)
		}
		right, _ := ids["node"].Client()
		conf.RootCAs = right.RootCAs
		c, err := tls.Dial("tcp", address, conf)
		if err != nil {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = c.Write([]byte("hello"))
		if n, err := c.Read(b); n > 0 || err == nil {
			t.Errorf("%s spoke Raft", name)
		}
		c.Close()
	}
}

func TestCertificatesAreReplacedWhileTheNodeRuns(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	if _, err := cert.CreateAuthority(dir, "blue", now); err != nil {
		t.Fatal(err)
	}
	file := func(name string) cert.Files {
		return cert.Files{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"), CA: filepath.Join(dir, cert.CAFile)}
	}
	for _, name := range []string{"n1", "n2"} {
		if err := cert.Create(dir, cert.Request{Fleet: "blue", Name: name, Role: cert.Node, Life: time.Hour}, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := cert.Create(dir, cert.Request{Fleet: "blue", Name: "n1", Role: cert.Node, Life: time.Hour}, now); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a certificate was overwritten: %v", err)
	}
	id, err := cert.Load(file("n1"), "blue")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, Config{Listen: "127.0.0.1:0", Identity: id}, &fakeNode{})
	shown := func() string {
		conf, _ := id.Client()
		c, err := tls.Dial("tcp", s.Addr(), conf)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := shown(); got != "n1" {
		t.Error(got)
	}
	for _, kind := range []string{".crt", ".key"} {
		copyFile(t, filepath.Join(dir, "n2"+kind), filepath.Join(dir, "n1"+kind))
	}
	if err := id.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != "n2" {
		t.Error(got)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
