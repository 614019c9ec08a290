package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rfsd/rfsd/rfs/fault"
)

// Notifier tells a service manager (systemd, Type=notify) how the daemon is, by datagrams to the
// socket it named (sd_notify(3)). A nil Notifier tells nobody.
type Notifier struct {
	conn  *net.UnixConn
	every time.Duration // of the watchdog; 0: off

	mu  sync.Mutex
	fed time.Time
}

// NewNotifier connects to the socket in NOTIFY_SOCKET and reads WATCHDOG_USEC and WATCHDOG_PID;
// nil without a socket. getenv is os.Getenv.
func NewNotifier(getenv func(string) string) (*Notifier, error) {
	name := getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil, nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"}) // a leading @ is Linux' abstract namespace
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET %s: %w: %w", name, err, fault.ErrConfig)
	}
	n := &Notifier{conn: conn}
	if usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && usec > 0 {
		if pid := getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
			n.every = time.Duration(usec) * time.Microsecond / 3
		}
	}
	return n, nil
}

// Send sends assignments such as READY=1. A service manager that does not listen is no reason to fail.
func (n *Notifier) Send(assignments ...string) {
	if n == nil {
		return
	}
	for i, a := range assignments {
		assignments[i] = strings.ReplaceAll(a, "\n", " ")
	}
	if _, err := n.conn.Write([]byte(strings.Join(assignments, "\n"))); err != nil && !errors.Is(err, net.ErrClosed) {
		return
	}
}

// Reloading says that the configuration is being read again; READY=1 ends that.
func (n *Notifier) Reloading() {
	if n == nil {
		return
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return // every kernel has it
	}
	n.Send("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(ts.Nano()/1000, 10))
}

// Feed tells the watchdog that all is well, three times as often as it wants to hear it.
func (n *Notifier) Feed(now time.Time) {
	if n == nil || n.every == 0 {
		return
	}
	n.mu.Lock()
	due := now.Sub(n.fed) >= n.every
	if due {
		n.fed = now
	}
	n.mu.Unlock()
	if due {
		n.Send("WATCHDOG=1")
	}
}
