package store

import (
	"context"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// logger adapts hclog to slog. Hints are not critical, so Raft's errors are logged as warnings.
type logger struct {
	log  *slog.Logger
	name string
	args []any
}

var levels = map[hclog.Level]slog.Level{
	hclog.Trace: slog.LevelDebug - 4, hclog.Debug: slog.LevelDebug, hclog.Info: slog.LevelDebug,
	hclog.Warn: slog.LevelInfo, hclog.Error: slog.LevelWarn,
}

func (l logger) Log(level hclog.Level, msg string, args ...any) {
	if strings.Contains(msg, "failed to decode incoming command") || strings.Contains(msg, "failed to appendEntries to") || strings.Contains(msg, "failed to heartbeat to") {
		level = hclog.Debug // a peer left; gossip reports that already
	}
	l.log.Log(context.Background(), levels[level], "raft: "+msg, append(l.args, args...)...)
}
func (l logger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l logger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l logger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l logger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l logger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }
func (l logger) enabled(level hclog.Level) bool {
	return l.log.Enabled(context.Background(), levels[level])
}
func (l logger) IsTrace() bool         { return l.enabled(hclog.Trace) }
func (l logger) IsDebug() bool         { return l.enabled(hclog.Debug) }
func (l logger) IsInfo() bool          { return l.enabled(hclog.Info) }
func (l logger) IsWarn() bool          { return l.enabled(hclog.Warn) }
func (l logger) IsError() bool         { return l.enabled(hclog.Error) }
func (l logger) ImpliedArgs() []any    { return l.args }
func (l logger) Name() string          { return l.name }
func (l logger) SetLevel(hclog.Level)  {}
func (l logger) GetLevel() hclog.Level { return hclog.Debug }
func (l logger) With(args ...any) hclog.Logger {
	l.args = append(l.args[:len(l.args):len(l.args)], args...)
	return l
}
func (l logger) Named(name string) hclog.Logger      { l.name += name; return l }
func (l logger) ResetNamed(name string) hclog.Logger { l.name = name; return l }
func (l logger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.log.Handler(), slog.LevelDebug)
}
func (l logger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
