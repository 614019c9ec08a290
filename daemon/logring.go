package daemon

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
)

// LogRing keeps the last log lines, as JSON. It is an io.Writer of whole lines.
type LogRing struct {
	mu    sync.Mutex
	lines []status.LogLine
	next  int
}

// maxLogLine limits the length of a line, in bytes.
const maxLogLine = 16 << 10

// NewLogRing returns a ring of n lines.
func NewLogRing(n int) *LogRing { return &LogRing{lines: make([]status.LogLine, n)} }

// Write adds each line of p.
func (r *LogRing) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		r.Add(bytes.TrimRight(line, "\r\n"))
	}
	return len(p), nil
}

// Add appends a line. Text that is not a JSON object becomes the message of one.
func (r *LogRing) Add(line []byte) {
	if len(line) == 0 {
		return
	}
	if len(line) > maxLogLine || line[0] != '{' || !json.Valid(line) {
		wrapped, err := json.Marshal(map[string]any{"time": time.Now(), "level": "ERROR", "msg": string(line[:min(len(line), maxLogLine)])})
		if err != nil {
			return // strings marshal
		}
		line = wrapped
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines[r.next%len(r.lines)] = bytes.Clone(line)
	r.next++
}

// Last returns the last lines, at most limit, oldest first; limit ≤ 0: all.
func (r *LogRing) Last(limit int) []status.LogLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(r.next, len(r.lines))
	if limit > 0 {
		n = min(n, limit)
	}
	out := make([]status.LogLine, 0, n)
	for i := r.next - n; i < r.next; i++ {
		out = append(out, r.lines[i%len(r.lines)])
	}
	return out
}
