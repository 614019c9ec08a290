package gossip

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// logWriter converts memberlist's lines to log records. It writes at most maxLinesPerSecond and counts the
// rest, so that invalid packets from outside cannot fill the disk.
type logWriter struct {
	log *slog.Logger

	mu      sync.Mutex
	second  time.Time
	lines   int
	dropped int
}

const maxLinesPerSecond = 5

func newLogWriter(log *slog.Logger) *logWriter { return &logWriter{log: log} }

func (w *logWriter) Write(b []byte) (int, error) {
	line := string(bytes.TrimSpace(b))
	level := slog.LevelDebug
	for mark, l := range map[string]slog.Level{"[ERR]": slog.LevelWarn, "[WARN]": slog.LevelInfo, "[INFO]": slog.LevelDebug} {
		if strings.Contains(line, mark) {
			level = l
		}
	}
	if _, words, ok := strings.Cut(line, "memberlist: "); ok {
		line = words
	}
	dropped, write := w.allow()
	if dropped > 0 {
		w.log.Warn("gossip log suppressed", "messages", dropped)
	}
	if write {
		w.log.Log(context.Background(), level, "gossip: "+line)
	}
	return len(b), nil
}

// allow reports whether a line may be written, and how many lines were suppressed in the previous second.
func (w *logWriter) allow() (dropped int, ok bool) {
	now := time.Now().Truncate(time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.Equal(w.second) {
		dropped, w.second, w.lines, w.dropped = w.dropped, now, 0, 0
	}
	if w.lines++; w.lines > maxLinesPerSecond {
		w.dropped++
		return dropped, false
	}
	return dropped, true
}
