package abuse

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
)

// TestGossipBeforeTheKey: connections that announce 20 MB each, without the key.
func TestGossipBeforeTheKey(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	key, err := cert.GossipKey()
	must(t, err)
	must(t, os.WriteFile(keys, []byte(key+"\n"), 0o600))
	n := start(t, "--fleet", "blue", "--gossip-listen", "127.0.0.1:GOSSIP", "--gossip-keys", keys)
	address := "127.0.0.1:" + n.gossip
	until(t, "gossip listens: "+n.logged(t), func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	frame := append([]byte{244, 4}, "blue"...)
	frame = binary.BigEndian.AppendUint32(append(frame, 10), 19_900_000)
	var senders sync.WaitGroup
	for range 60 {
		senders.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(8 * time.Second))
			chunk := make([]byte, 64<<10)
			if _, err := conn.Write(frame); err != nil {
				return
			}
			for sent := 0; sent < 16<<20; sent += len(chunk) {
				if _, err := conn.Write(chunk); err != nil {
					return
				}
			}
		})
	}
	senders.Wait()
	if got := n.memory(t); got > 200<<20 {
		t.Errorf("the daemon took %d MB", got>>20)
	}
}

// TestGossipWithoutAKeyBeyondLoopback: such a node does not start.
func TestGossipWithoutAKeyBeyondLoopback(t *testing.T) {
	e := run(t, 10*time.Second, []string{"RFS_TARGET_PASSWORD=x"}, "rfsd", "run", "--target-host", fakeCluster(t), "--session-name", "abuse", "--repo-uri", fixture(t),
		"--snapshot-name", "snap1", "--gossip-listen", "0.0.0.0:"+freePort(t))
	if e.late || e.code == 0 || !strings.Contains(e.stderr, "--gossip-keys") {
		t.Errorf("exit %d, ran on %t: %s", e.code, e.late, e.stderr)
	}
}

// TestSocketsOfOtherUsers: connections that announce a body and never send it, on the socket that all users may use.
func TestSocketsOfOtherUsers(t *testing.T) {
	n := start(t)
	for range 500 {
		conn, err := net.Dial("unix", n.reader)
		if err != nil {
			continue
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: rfsd\r\nContent-Length: 10\r\n\r\n")
	}
	// An answer on the other socket: those before it were accepted.
	if e := run(t, patience, nil, "rfsctl", "status", "--node", n.operator); e.late || !strings.Contains(e.stdout, "node ") {
		t.Errorf("an operator gets exit %d: %s%s", e.code, e.stdout, e.stderr)
	}
	until(t, "less than 150 descriptors are open", func() bool { return n.descriptors(t) < 150 })
}

// fleet makes certificates: node, operator.
func fleet(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	now := time.Now()
	_, err := cert.CreateAuthority(dir, "blue", now)
	must(t, err)
	must(t, cert.Create(dir, cert.Request{Fleet: "blue", Name: "n1", Role: cert.Node, Life: time.Hour}, now))
	must(t, cert.Create(dir, cert.Request{Fleet: "blue", Name: "o1", Role: cert.Operator, Life: time.Hour}, now))
	return dir
}

func withTLS(dir string) []string {
	return []string{"--fleet", "blue", "--listen", "127.0.0.1:PORT", "--tls-cert", filepath.Join(dir, "n1.crt"), "--tls-key", filepath.Join(dir, "n1.key"), "--tls-ca", filepath.Join(dir, "ca.crt")}
}

// awaitPort blocks until the port for nodes and operators is open, which it is later than the sockets.
func awaitPort(t *testing.T, n *node) {
	t.Helper()
	until(t, "the port is open behind the sockets", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+n.port)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// TestSilentConnections: 540 connections to the TLS port that say nothing, renewed as they end.
func TestSilentConnections(t *testing.T) {
	dir := fleet(t)
	n := start(t, withTLS(dir)...)
	awaitPort(t, n)
	stop := make(chan struct{})
	var flood sync.WaitGroup
	for range 54 {
		flood.Go(func() {
			var held []net.Conn
			for {
				for len(held) < 10 {
					conn, err := net.Dial("tcp", "127.0.0.1:"+n.port)
					if err != nil {
						break
					}
					held = append(held, conn)
				}
				select {
				case <-stop:
					for _, c := range held {
						c.Close()
					}
					return
				case <-time.After(time.Second):
				}
				if len(held) == 0 {
					continue
				}
				_ = held[0].SetReadDeadline(time.Now().Add(time.Millisecond))
				var timeout net.Error
				if _, err := held[0].Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
					held[0].Close()
					held = held[1:]
				}
			}
		})
	}
	defer flood.Wait()
	defer close(stop)
	for try := range 3 {
		e := run(t, 8*time.Second, nil, "rfsctl", "status", "--node", "127.0.0.1:"+n.port, "--fleet", "blue",
			"--tls-cert", filepath.Join(dir, "o1.crt"), "--tls-key", filepath.Join(dir, "o1.key"), "--tls-ca", filepath.Join(dir, "ca.crt"))
		if e.late || !strings.Contains(e.stdout, "node ") {
			t.Errorf("try %d: an operator gets exit %d: %s%s", try, e.code, e.stdout, e.stderr)
		}
	}
}

// TestCertificatesThatEnd: a connection that was opened before its certificate expired, or its authority was replaced.
func TestCertificatesThatEnd(t *testing.T) {
	for _, how := range []string{"expired", "another authority"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := fleet(t)
			n := start(t, withTLS(dir)...)
			awaitPort(t, n)
			operator := "o1"
			if how == "expired" {
				operator = "o2" // its life begins when the node is there
				must(t, cert.Create(dir, cert.Request{Fleet: "blue", Name: operator, Role: cert.Operator, Life: 4 * time.Second}, time.Now()))
			}
			id, err := cert.Load(cert.Files{Cert: filepath.Join(dir, operator+".crt"), Key: filepath.Join(dir, operator+".key"), CA: filepath.Join(dir, "ca.crt")}, "blue")
			must(t, err)
			conf, err := id.Client()
			must(t, err)
			conn, err := tls.Dial("tcp", "127.0.0.1:"+n.port, conf)
			must(t, err)
			defer conn.Close()
			answers := bufio.NewReader(conn)
			ask := func() bool {
				_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
				if _, err := io.WriteString(conn, "GET /v1/logs?limit=1 HTTP/1.1\r\nHost: rfsd\r\n\r\n"); err != nil {
					return false
				}
				res, err := http.ReadResponse(answers, nil)
				if err != nil {
					return false
				}
				defer res.Body.Close()
				_, err = io.Copy(io.Discard, res.Body)
				return err == nil && res.StatusCode == http.StatusOK
			}
			if !ask() {
				t.Fatal("the connection is refused before its end")
			}
			if how == "another authority" {
				for _, name := range []string{"ca.crt", "ca.key", "n1.crt", "n1.key"} {
					must(t, os.Remove(filepath.Join(dir, name)))
				}
				_, err := cert.CreateAuthority(dir, "blue", time.Now())
				must(t, err)
				must(t, cert.Create(dir, cert.Request{Fleet: "blue", Name: "n1", Role: cert.Node, Life: time.Hour}, time.Now()))
			}
			begin := time.Now()
			until(t, "the open connection ends", func() bool { return !ask() })
			if took := time.Since(begin); took > 14*time.Second { // 4 s of life, 10 s
				t.Errorf("it ended after %v", took)
			}
		})
	}
}

// TestThePageHasAnOriginOfItsOwn: its cookie goes to no other port of 127.0.0.1, and reads nothing but the page.
func TestThePageHasAnOriginOfItsOwn(t *testing.T) {
	n := start(t)
	page := exec.CommandContext(t.Context(), filepath.Join(programs, "rfsctl"), "page", "--no-browser", "--node", n.operator)
	page.Dir = t.TempDir()
	out, err := page.StdoutPipe()
	must(t, err)
	must(t, page.Start())
	t.Cleanup(func() { _ = page.Process.Kill(); _ = page.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	found := regexp.MustCompile(`http://([^/:]+):(\d+)(/\?token=[0-9a-f]+)`).FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("no address in %q", line)
	}
	host, port, token := found[1], found[2], found[3]
	if !regexp.MustCompile(`^[0-9a-f]{32}\.localhost$`).MatchString(host) {
		t.Errorf("the page's host is %s: its cookie goes to every port of that host", host)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(path string, cookies []*http.Cookie) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, nil)
		must(t, err)
		req.Host = net.JoinHostPort(host, port)
		for _, c := range cookies {
			req.AddCookie(c)
		}
		res, err := client.Do(req)
		must(t, err)
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	cookies := get(token, nil).Cookies()
	if res := get("/v1/events", cookies); res.StatusCode != http.StatusOK {
		t.Errorf("events: %s", res.Status)
	}
	if res := get("/v1/logs", cookies); res.StatusCode != http.StatusForbidden {
		t.Errorf("logs: %s", res.Status)
	}
}
