package daemon

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Notifier reports the state of the daemon to a service manager (systemd, Type=notify; see sd_notify(3)).
// The nil Notifier does nothing.
type Notifier struct {
	interval time.Duration // of watchdog messages; 0: off

	mu  sync.Mutex
	fed time.Time
}

// NewNotifier returns the Notifier for the socket in NOTIFY_SOCKET, with a watchdog if WATCHDOG_USEC and WATCHDOG_PID
// enable it. It returns nil if no socket is set, and fault.ErrConfig if the socket cannot be used.
func NewNotifier() (*Notifier, error) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil, nil
	}
	if _, err := systemd.SdNotify(false, "STATUS=starting"); err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET %s: %w: %w", os.Getenv("NOTIFY_SOCKET"), err, fault.ErrConfig)
	}
	n := &Notifier{}
	if timeout, err := systemd.SdWatchdogEnabled(false); err == nil {
		n.interval = timeout / 3
	}
	return n, nil
}

// Send sends assignments such as READY=1. Errors are ignored: the daemon works without a service manager.
func (n *Notifier) Send(assignments ...string) {
	if n == nil {
		return
	}
	for i, a := range assignments {
		assignments[i] = strings.ReplaceAll(a, "\n", " ")
	}
	_, _ = systemd.SdNotify(false, strings.Join(assignments, "\n"))
}

// Reloading reports that the configuration is being reloaded; READY=1 ends that state.
func (n *Notifier) Reloading() {
	n.Send(systemd.SdNotifyReloading, strings.TrimSpace(systemd.SdNotifyMonotonicUsec()))
}

// Feed sends a watchdog message, at most three times per watchdog timeout.
func (n *Notifier) Feed(now time.Time) {
	if n == nil || n.interval == 0 {
		return
	}
	n.mu.Lock()
	due := now.Sub(n.fed) >= n.interval
	if due {
		n.fed = now
	}
	n.mu.Unlock()
	if due {
		n.Send(systemd.SdNotifyWatchdog)
	}
}
