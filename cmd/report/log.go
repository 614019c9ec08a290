package report

import (
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/base/terminal"
)

// Log returns the log of a command: JSON, or text above the line of progress where standard error is a terminal. The
// Screen is nil elsewhere.
func Log(level slog.Level) (*slog.Logger, *terminal.Screen) {
	opts := LogOptions(level)
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return slog.New(slog.NewJSONHandler(terminal.NewWriter(os.Stderr), opts)), nil
	}
	if level == slog.LevelInfo {
		opts.Level = slog.LevelWarn // the line of progress shows the rest
	}
	screen := terminal.NewScreen(os.Stderr)
	return slog.New(slog.NewTextHandler(screen, opts)), screen
}

// LogOptions returns the options of every log: secrets are masked, durations are written as text, and an error that is empty is left out.
func LogOptions(level slog.Leveler) *slog.HandlerOptions {
	return &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Value.Kind() {
		case slog.KindDuration:
			a.Value = slog.StringValue(a.Value.Duration().String())
		case slog.KindString:
			if a.Key == "error" && a.Value.String() == "" {
				return slog.Attr{}
			}
			a.Value = slog.StringValue(secret.Text(a.Value.String()))
		case slog.KindAny:
			switch v := a.Value.Any().(type) {
			case error:
				a.Value = slog.StringValue(secret.Text(v.Error()))
			case []string:
				masked := make([]string, len(v))
				for i, s := range v {
					masked[i] = secret.Text(s)
				}
				a.Value = slog.AnyValue(masked)
			}
		default:
		}
		return a
	}}
}

// Progress shows what text returns, twice a second on a screen, or every 30 s in the log, until the returned function is
// called. The elapsed seconds are at least 0.001.
func Progress(text func(elapsed float64) string, log *slog.Logger, screen *terminal.Screen) func() {
	begin, every := time.Now(), 30*time.Second
	show := func(s string) { log.Info("progress", "progress", s) }
	if screen != nil {
		every, show = 500*time.Millisecond, screen.Show
	}
	ticker, quit, ended := time.NewTicker(every), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case now := <-ticker.C:
				show(text(max(now.Sub(begin).Seconds(), 0.001)))
			case <-quit:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(quit)
		<-ended
		if screen != nil {
			screen.Show("")
		}
	}
}
