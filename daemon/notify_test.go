package daemon

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// manager is the socket of a service manager.
type manager struct {
	conn *net.UnixConn
	mu   sync.Mutex
	got  []string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.got = append(m.got, string(b[:n]))
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	t.Setenv("NOTIFY_SOCKET", name)
	t.Setenv("WATCHDOG_USEC", "600000")
	return m
}

// count returns how many messages hold the text.
func (m *manager) count(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, g := range m.got {
		if strings.Contains(g, text) {
			n++
		}
	}
	return n
}

func TestTheServiceManagerIsToldOfBeginReloadAndEnd(t *testing.T) {
	m := newManager(t)
	notify, err := NewNotifier()
	if err != nil {
		t.Fatal(err)
	}
	reloaded := 0
	starter := &fakeStarter{stopped: handsOff}
	n := startNode(t, Config{Workers: 1, Notify: notify, Reload: func() (string, error) { reloaded++; return "DEBUG", nil }}, starter)
	until(t, "ready", func() bool { return m.count("READY=1") == 1 })
	until(t, "a status with numbers", func() bool { return m.count("STATUS=running: 1 of 1 workers, 0 of 4 shards") > 0 })
	until(t, "the watchdog is fed", func() bool { return m.count("WATCHDOG=1") >= 3 })
	n.Reload()
	until(t, "ready again", func() bool { return m.count("READY=1") == 2 })
	m.mu.Lock()
	at := -1
	for i, g := range m.got {
		if strings.HasPrefix(g, "RELOADING=1\nMONOTONIC_USEC=") {
			usec, err := strconv.ParseInt(strings.TrimPrefix(g, "RELOADING=1\nMONOTONIC_USEC="), 10, 64)
			if err == nil && usec > 0 {
				at = i
			}
		}
		if g == "READY=1" && at < 0 {
			t.Error("ready again before it was reloading")
		}
	}
	m.mu.Unlock()
	if at < 0 || reloaded != 1 {
		t.Errorf("reloading at %d, reloaded %d times", at, reloaded)
	}
	until(t, "the workers know the level", func() bool {
		_, _, orders := starter.living()[0].read()
		return orders[len(orders)-1].LogLevel == "DEBUG"
	})
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	until(t, "the end is told", func() bool { return m.count("STOPPING=1") == 1 })
}

// stuckStarter hangs in Start, like a hanging loop.
type stuckStarter struct{ release chan struct{} }

func (s stuckStarter) Start(int, WorkerCommand, func(Record), func(End)) (Worker, error) {
	<-s.release
	return nil, net.ErrClosed
}

func TestTheWatchdogIsNotFedWhileTheLoopHangs(t *testing.T) {
	m := newManager(t)
	notify, err := NewNotifier()
	if err != nil {
		t.Fatal(err)
	}
	stuck := stuckStarter{make(chan struct{})}
	release := sync.OnceFunc(func() { close(stuck.release) })
	t.Cleanup(release)
	startNode(t, Config{Workers: 1, Notify: notify, Starter: stuck}, &fakeStarter{})
	t.Cleanup(release) // before the node is stopped
	until(t, "the watchdog is fed", func() bool { return m.count("WATCHDOG=1") > 0 })
	var fed int
	until(t, "the feeding ends for two intervals of the watchdog", func() bool {
		fed = m.count("WATCHDOG=1")
		<-time.After(1200 * time.Millisecond)
		return m.count("WATCHDOG=1") == fed
	})
}

func TestWithoutAServiceManagerNothingIsTold(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	n, err := NewNotifier()
	if n != nil || err != nil {
		t.Fatalf("%v, %v", n, err)
	}
	n.Send("READY=1")
	n.Feed(time.Now())
	n.Reloading()
	t.Setenv("NOTIFY_SOCKET", "/nowhere/socket")
	if _, err := NewNotifier(); err == nil {
		t.Error("a missing socket is accepted")
	}
}
