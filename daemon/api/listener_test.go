package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
)

// answered sends a request over a raw connection and returns the status line, "" when the connection is closed.
func answered(t *testing.T, conn net.Conn, request string) string {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return ""
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		t.Fatal("no answer, and the connection is open")
	}
	return strings.TrimSpace(line)
}

const getStatus = "GET /v1/status HTTP/1.1\r\nHost: rfsd\r\n\r\n"

func TestSocketsAreBounded(t *testing.T) {
	var refused sync.Map
	// Each case has a server of its own: one counts a connection for a moment after its client saw the end of it.
	begin := func(t *testing.T) (dial func(name string) net.Conn) {
		dir := t.TempDir()
		conf := Config{Socket: filepath.Join(dir, "op"), StatusSocket: filepath.Join(dir, "ro"), Refused: func(name string) { refused.Store(name, true) }}
		serve(t, conf, &fakeNode{})
		return func(name string) net.Conn {
			conn, err := net.Dial("unix", filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
	}
	t.Run("a GET has no body to be waited for", func(t *testing.T) {
		dial := begin(t)
		for _, head := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
			conn := dial("ro")
			if got := answered(t, conn, "GET /v1/status HTTP/1.1\r\nHost: rfsd\r\n"+head+"\r\n\r\n"); !strings.Contains(got, "400") {
				t.Errorf("%s: %q", head, got)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("%s: the connection stays open: %v", head, err)
			}
			conn.Close()
		}
	})
	t.Run("one user has a bound on each", func(t *testing.T) {
		dial := begin(t)
		held := make([]net.Conn, maxPerUser)
		for i := range held {
			held[i] = dial("ro")
			if got := answered(t, held[i], getStatus); !strings.Contains(got, "200") {
				t.Fatalf("connection %d: %q", i, got)
			}
		}
		if got := answered(t, dial("ro"), getStatus); got != "" {
			t.Errorf("one connection more: %q", got)
		}
		if _, ok := refused.Load("status_socket"); !ok {
			t.Error("the refusal was not counted")
		}
		if got := answered(t, dial("op"), getStatus); !strings.Contains(got, "200") {
			t.Errorf("the operators' socket: %q", got)
		}
	})
}

func TestPlacesOfTheOwnerAreKept(t *testing.T) {
	l := &boundListener{owner: 500, users: map[int]int{}}
	taken := 0
	for user := 1000; l.take(user) == "" || user < 1010; user++ {
		taken++
		for l.take(user) == "" {
			taken++
		}
	}
	if l.all != maxSocket-keptForOwner {
		t.Errorf("others hold %d places", l.all)
	}
	for _, user := range []int{0, 500} {
		if why := l.take(user); why != "" {
			t.Errorf("user %d: %s", user, why)
		}
	}
	l.leave(0)
	l.leave(500)
	for user := 1000; user < 1020; user++ {
		for l.users[user] > 0 {
			l.leave(user)
		}
	}
	if l.all != 0 || len(l.users) != 0 {
		t.Errorf("%d places are left taken, %v", l.all, l.users)
	}
}

func TestSilentConnectionsLeaveThePortOpenToOthers(t *testing.T) {
	ids := identities(t)
	var lines syncLog
	n := &fakeNode{}
	s, err := New(Config{Listen: "127.0.0.1:0", Identity: ids["node"], Log: slog.New(slog.NewTextHandler(&lines, nil))}, n)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	for range maxPerAddress + 30 {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	conf, err := ids["operator"].Client()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", s.Addr(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := answered(t, conn, getStatus); !strings.Contains(got, "200") {
		t.Errorf("an operator gets %q", got)
	}
	if log := lines.String(); !strings.Contains(log, "level=WARN msg=\"connections refused\" listener=port") {
		t.Errorf("log %q", log)
	}
}

func TestASilentHandshakeEnds(t *testing.T) {
	s := serve(t, Config{Listen: "127.0.0.1:0", Identity: identities(t)["node"]}, &fakeNode{})
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start := time.Now()
	if got := answered(t, conn, "\x16"); got != "" {
		t.Errorf("%q", got)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it ended after %v", took)
	}
}

func TestRolesHaveTheirOwnPlacesOnThePort(t *testing.T) {
	ids := identities(t)
	s := serve(t, Config{Listen: "127.0.0.1:0", Identity: ids["node"]}, &fakeNode{})
	get := func(role string) string {
		conf, err := ids[role].Client()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", s.Addr(), conf)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return answered(t, conn, getStatus)
	}
	for i := range maxOfRole[cert.Reader] {
		if got := get("reader"); !strings.Contains(got, "200") {
			t.Fatalf("reader %d: %q", i, got)
		}
	}
	if got := get("reader"); got != "" {
		t.Errorf("one reader more: %q", got)
	}
	for _, role := range []string{"operator", "node"} {
		if got := get(role); !strings.Contains(got, "200") {
			t.Errorf("%s: %q", role, got)
		}
	}
}

func TestFollowersAreCountedPerRole(t *testing.T) {
	dir, n := t.TempDir(), &fakeNode{changed: make(chan struct{})}
	s := serve(t, Config{Socket: filepath.Join(dir, "op"), Listen: "127.0.0.1:0"}, n)
	follow := func(network, address string) string {
		conn, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		host := s.Addr()
		return answered(t, conn, "GET /v1/stream HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	}
	for i := range maxStreams {
		if got := follow("tcp", s.Addr()); !strings.Contains(got, "200") {
			t.Fatalf("follower %d: %q", i, got)
		}
	}
	if got := follow("tcp", s.Addr()); !strings.Contains(got, "503") {
		t.Errorf("one reader more: %q", got)
	}
	if got := follow("unix", filepath.Join(dir, "op")); !strings.Contains(got, "200") {
		t.Errorf("an operator: %q", got)
	}
}

// TestCertificatesThatAreTakenAwayEndWhatIsOpen: an idle connection, a follower, and Raft in both directions.
func TestCertificatesThatAreTakenAwayEndWhatIsOpen(t *testing.T) {
	for _, how := range []string{"another authority", "expired"} {
		t.Run(how, func(t *testing.T) {
			dir, begin := t.TempDir(), time.Now()
			if _, err := cert.CreateAuthority(dir, "blue", begin); err != nil {
				t.Fatal(err)
			}
			load := func(name string, role cert.Role) *cert.Identity {
				if err := cert.Create(dir, cert.Request{Fleet: "blue", Name: name, Role: role, Life: time.Hour}, begin); err != nil {
					t.Fatal(err)
				}
				id, err := cert.Load(cert.Files{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"), CA: filepath.Join(dir, cert.CAFile)}, "blue")
				if err != nil {
					t.Fatal(err)
				}
				return id
			}
			node, operator := load("n1", cert.Node), load("o1", cert.Operator)
			var late atomic.Int64
			conf := Config{Listen: "127.0.0.1:0", Identity: node, Raft: NewStreams(node, "n1"), Now: func() time.Time { return begin.Add(time.Duration(late.Load())) }}
			s := serve(t, conf, &fakeNode{changed: make(chan struct{})})
			dial := func(id *cert.Identity, protocols ...string) net.Conn {
				c, err := id.Client(protocols...)
				if err != nil {
					t.Fatal(err)
				}
				conn, err := tls.Dial("tcp", s.Addr(), c)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				return conn
			}
			idle, follower := dial(operator), dial(operator)
			if got := answered(t, idle, "POST /v1/pause HTTP/1.1\r\nHost: rfsd\r\nContent-Length: 0\r\n\r\n"); !strings.Contains(got, "200") {
				t.Fatal(got)
			}
			if got := answered(t, follower, "GET /v1/stream HTTP/1.1\r\nHost: rfsd\r\n\r\n"); !strings.Contains(got, "200") {
				t.Fatal(got)
			}
			here := conf.Raft.Open()
			defer here.Close()
			raft, err := here.Dial(s.Addr(), 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer raft.Close()
			far, err := here.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer far.Close()

			if how == "expired" {
				late.Store(int64(2 * time.Hour))
			} else {
				replaceAuthority(t, dir)
				if err := node.Reload(); err != nil {
					t.Fatal(err)
				}
			}
			if got := answered(t, idle, "POST /v1/pause HTTP/1.1\r\nHost: rfsd\r\nContent-Length: 0\r\n\r\n"); strings.Contains(got, "200") {
				t.Errorf("the open connection: %q", got)
			}
			for name, conn := range map[string]net.Conn{"follower": follower, "Raft from this node": raft, "Raft to this node": far} {
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				_, err := io.Copy(io.Discard, conn)
				var timeout net.Error
				if errors.As(err, &timeout) && timeout.Timeout() {
					t.Errorf("%s is open", name)
				}
			}
		})
	}
}

// replaceAuthority replaces the authority and the certificate n1 by new ones.
func replaceAuthority(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"ca.crt", "ca.key", "n1.crt", "n1.key"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	if _, err := cert.CreateAuthority(dir, "blue", now); err != nil {
		t.Fatal(err)
	}
	if err := cert.Create(dir, cert.Request{Fleet: "blue", Name: "n1", Role: cert.Node, Life: time.Hour}, now); err != nil {
		t.Fatal(err)
	}
}

// run serves until the test ends.
func run(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type syncLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *syncLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// FuzzRequest feeds the first bytes of a connection to the API as a reader on a socket.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{getStatus, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n", "POST /v1/scale HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{\"a\":[[[", "\x16\x03\x01\x00\xff", "PRI * HTTP/2.0\r\n\r\n", "GET /v1/items?limit=9e9&state=%ff HTTP/1.1\r\nHost: x\r\n\r\n"} {
		f.Add([]byte(seed))
	}
	n := &fakeNode{changed: make(chan struct{})}
	s := &Server{node: n, log: slog.New(slog.DiscardHandler), streams: map[cert.Role]chan struct{}{}}
	h := s.handler(unixAuth(cert.Reader))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(b))))
		if err != nil || r.URL.Path == "/v1/stream" {
			return
		}
		w := &answerOnly{head: http.Header{}}
		h.ServeHTTP(w, r.WithContext(t.Context()))
		if len(n.wishes) > 0 {
			t.Fatalf("a reader's %q became a wish", fmt.Sprint(n.wishes))
		}
		if w.code >= 500 {
			t.Fatalf("status %d", w.code)
		}
	})
}

type answerOnly struct {
	head http.Header
	code int
}

func (w *answerOnly) Header() http.Header         { return w.head }
func (w *answerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (w *answerOnly) WriteHeader(code int)        { w.code = code }
