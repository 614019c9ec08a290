package daemon

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// logged is a log that tests read while it is written.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// lines returns the lines with a message.
func (l *logged) lines(msg string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, "msg="+msg+" ") {
			all = append(all, line)
		}
	}
	return all
}

// TestDaemon_LogsProgress: the first line after 5 s, then one a minute, and one at the end.
func TestDaemon_LogsProgress(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		var log logged
		n := startNode(t, Config{Workers: 1, Log: slog.New(slog.NewTextHandler(&log, nil))}, &fakeStarter{stopped: handsOff})
		until(t, "the store was read", func() bool { return n.Ready() == nil })
		if got := log.lines("progress"); len(got) != 0 {
			t.Errorf("before 5 s: %q", got)
		}
		time.Sleep(6 * time.Second)
		if got := log.lines("progress"); len(got) != 1 || !strings.Contains(got[0], "state=") || !strings.Contains(got[0], "documents=0 documents_per_second=0 shards_done=0 shards=4 failed=0 given_up=0") {
			t.Errorf("after 5 s: %q", got)
		}
		time.Sleep(3 * time.Minute)
		if got := log.lines("progress"); len(got) != 4 {
			t.Errorf("after 3 minutes more: %d lines: %q", len(got), got)
		}
		if err := n.stop(); err != nil {
			t.Error(err)
		}
		if got := log.lines("progress"); len(got) != 5 {
			t.Errorf("at the end: %d lines: %q", len(got), got)
		}
	})
}
