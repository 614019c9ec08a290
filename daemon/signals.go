package daemon

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rfsd/rfsd/rfs/base/interruption"
)

// HandleSignals reloads at SIGHUP, and kills the workers at the second interruption of the daemon, until stop is called. The first one is
// not handled here: it cancels the context of Run.
func (d *Daemon) HandleSignals() (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, os.Interrupt)
	quit := make(chan struct{})
	go func() {
		var ends interruption.Counter
		for {
			select {
			case <-quit:
				return
			case s := <-signals:
				if s == syscall.SIGHUP {
					d.Reload()
					continue
				}
				if ends.Add(time.Now()) > 1 {
					d.KillWorkers()
				}
			}
		}
	}()
	return func() { signal.Stop(signals); close(quit) }
}
