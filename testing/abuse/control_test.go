package abuse

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
)

// listener is an attacker who waits for credentials.
type listener struct {
	mu   sync.Mutex
	got  []string
	seen int
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen++
	if a := r.Header.Get("Authorization"); a != "" {
		l.got = append(l.got, a)
	}
	w.WriteHeader(http.StatusInternalServerError)
}

func (l *listener) requests() (all int, withCredentials []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen, l.got
}

func attacker(t *testing.T) (*listener, string) {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &listener{}
	s := &http.Server{Handler: l, ReadHeaderTimeout: time.Second}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(socket) }()
	t.Cleanup(func() { s.Close(); <-served })
	return l, "http://" + socket.Addr().String()
}

// config returns the key and the text of the record of shared settings.
func (c *cluster) config() (key, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, v := range c.docs {
		if strings.HasSuffix(k, "/config") {
			return k, v
		}
	}
	return "", ""
}

func (c *cluster) write(key, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.docs[key] = text
}

// found begins a session on the cluster with the given settings, and stops when they are stored.
func found(t *testing.T, c *cluster, url, state string, more ...string) (key, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "rfsd"), append([]string{"run", "--target-host", url, "--session-name", "sec", "--workers", "1"}, more...)...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "XDG_STATE_HOME="+state, "RFS_TARGET_PASSWORD=x")
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 3*time.Second
	_, was := c.config()
	must(t, cmd.Start())
	until(t, "the settings are stored", func() bool { _, now := c.config(); return now != was })
	cancel()
	_ = cmd.Wait()
	return c.config()
}

// changed is the record with other settings, as a writer of the control index would make it.
func changed(t *testing.T, text string, settings map[string][]string) string {
	t.Helper()
	var r map[string]any
	must(t, json.Unmarshal([]byte(text), &r))
	body, ok := r["body"].(map[string]any)
	if !ok {
		t.Fatalf("a record without a body: %s", text)
	}
	body["settings"] = settings
	b, err := json.Marshal(r)
	must(t, err)
	return string(b)
}

// TestTheControlIndexSendsNoCredentials: a writer of the control index changes addresses that nodes take over which were
// started with target and session only.
func TestTheControlIndexSendsNoCredentials(t *testing.T) {
	key := filepath.Join(t.TempDir(), "fleet.key")
	k, err := cert.GossipKey()
	must(t, err)
	must(t, os.WriteFile(key, []byte(k+"\n"), 0o600))
	for _, c := range []struct {
		name   string
		key    []string
		change func(t *testing.T, c *cluster, listener, old string)
		wants  string // of stderr
		asked  bool   // the address of the first node's settings is asked: the record is believed
	}{
		{"changed, no key", nil, func(t *testing.T, c *cluster, listener, _ string) {
			k, text := c.config()
			c.write(k, changed(t, text, map[string][]string{"repo-uri": {"NOWHERE"}, "source-host": {listener}, "source-insecure": {"true"}}))
		}, "--fleet-key", false},
		{"changed, with a key", []string{"--fleet-key", key}, func(t *testing.T, c *cluster, listener, _ string) {
			k, text := c.config()
			c.write(k, changed(t, text, map[string][]string{"repo-uri": {"NOWHERE"}, "source-host": {listener}, "source-insecure": {"true"}}))
		}, "was changed", false},
		{"an endpoint of S3", nil, func(t *testing.T, c *cluster, listener, _ string) {
			k, text := c.config()
			c.write(k, changed(t, text, map[string][]string{"repo-uri": {"s3://bucket/x"}, "snapshot-name": {"s"}, "s3-endpoint": {listener}, "s3-path-style": {"true"}, "s3-region": {"eu-west-1"}}))
		}, "s3-endpoint", false},
		{"an old record put back", []string{"--fleet-key", key}, func(_ *testing.T, c *cluster, _, old string) {
			k, _ := c.config()
			c.write(k, old)
		}, "old one was put back", false},
		{"as it was stored", []string{"--fleet-key", key}, func(*testing.T, *cluster, string, string) {}, "source-host", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			heard, address := attacker(t)
			played := &cluster{}
			url, state := serve(t, played), t.TempDir()
			settings := append([]string{"--repo-uri", fixture(t), "--source-host", address}, c.key...)
			_, old := found(t, played, url, state, settings...)
			if strings.HasPrefix(c.name, "an old") {
				found(t, played, url, state, append(settings, "--share-settings", "--max-rate", "7MB")...)
			}
			before, _ := heard.requests()
			if !c.asked { // the first node had no credentials of the source; what comes now is the second's
				heard, address = attacker(t)
				before = 0
			}
			c.change(t, played, address, old)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begin := time.Now()
			cmd := exec.CommandContext(ctx, filepath.Join(programs, "rfsd"), append([]string{"run", "--target-host", url, "--target-username", "admin", "--session-name", "sec", "--workers", "1"}, c.key...)...)
			cmd.Dir, cmd.Cancel, cmd.WaitDelay = t.TempDir(), func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 3*time.Second
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "RFS_TARGET_PASSWORD=x", "RFS_SOURCE_USERNAME=srcadmin", "RFS_SOURCE_PASSWORD=SECRETSRC",
				"AWS_ACCESS_KEY_ID=AKIASOURCE", "AWS_SECRET_ACCESS_KEY=SECRETSRC", "AWS_SESSION_TOKEN=SECRETTOKEN", "AWS_EC2_METADATA_DISABLED=true")
			var said lockedText
			cmd.Stderr = &said
			must(t, cmd.Start())
			ended := make(chan struct{})
			go func() { defer close(ended); _ = cmd.Wait() }()
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(said.String())
				}
			})
			until(t, "it names "+c.wants, func() bool { return strings.Contains(said.String(), c.wants) })
			if c.asked {
				until(t, "the address of the fleet is asked", func() bool { all, _ := heard.requests(); return all > before })
			} else { // what it would send, it sends at once
				select {
				case <-ended:
				case <-time.After(time.Until(begin.Add(8 * time.Second))):
				}
			}
			cancel()
			<-ended
			if _, credentials := heard.requests(); !c.asked && len(credentials) > 0 {
				t.Errorf("the attacker got %q", credentials)
			}
		})
	}
}

// lockedText is what a program writes while it runs.
type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
