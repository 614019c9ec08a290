package daemon

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/rfsd/rfsd/rfs/base/wait"
)

// The time of the first log line about progress, and the interval of the others.
const (
	firstProgress    = 5 * time.Second
	progressInterval = time.Minute
)

// logProgress logs the progress of the migration soon after the start, then every minute, and at the end. A complete migration is logged
// once.
func (d *Daemon) logProgress(ctx context.Context) {
	pause, complete := firstProgress, false
	for ended := false; !ended; pause = progressInterval {
		ended = wait.For(ctx, pause) != nil
		d.mu.Lock()
		m, v := d.shown().migration, d.view(time.Now())
		d.mu.Unlock()
		if m == nil || m.Complete && complete {
			continue
		}
		complete = m.Complete
		line := []slog.Attr{
			slog.String("state", v.State), slog.Int64("documents", v.Documents), slog.Int64("documents_per_second", int64(math.Round(v.Rate))),
			slog.Int64("shards_done", m.Totals.ShardsDone), slog.Int64("shards", m.Totals.Shards), slog.Int64("failed", v.Failed), slog.Int64("given_up", v.GivenUp),
		}
		if v.Left != nil {
			line = append(line, slog.Duration("left", time.Duration(*v.Left*float64(time.Second)).Round(time.Second)))
		}
		d.log.LogAttrs(ctx, slog.LevelInfo, "progress", line...)
	}
}
