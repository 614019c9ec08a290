package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/base/terminal"
)

// Logging selects what a command logs, and how.
type Logging struct {
	Level  slog.Level
	Format string // of --log-format
	Quiet  bool   // no progress
}

// Log returns the log of a command on standard error, to which libraries that log by themselves are directed, too. The Screen shows the
// progress; it is nil unless standard error is a terminal and progress is wanted.
func Log(of Logging) (*slog.Logger, *terminal.Screen) {
	opts := LogOptions(of.Level)
	var to io.Writer = terminal.NewWriter(os.Stderr)
	var screen *terminal.Screen
	isTerminal := term.IsTerminal(int(os.Stderr.Fd()))
	if isTerminal && !of.Quiet {
		screen = terminal.NewScreen(os.Stderr)
		to = screen
		if of.Level == slog.LevelInfo && of.Format == "auto" {
			opts.Level = slog.LevelWarn // the line of progress shows the rest
		}
	}
	log := slog.New(Handler(to, of.Format, isTerminal, opts))
	slog.SetDefault(log)
	return log, screen
}

// Handler returns a handler of a format of --log-format. auto is text where asText is true.
func Handler(to io.Writer, format string, asText bool, opts *slog.HandlerOptions) slog.Handler {
	if format == "text" || format != "json" && asText {
		return slog.NewTextHandler(to, opts)
	}
	return slog.NewJSONHandler(to, opts)
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

// Relay passes a line of a JSON log on to a handler. It returns false for another line.
func Relay(h slog.Handler, line []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	var r slog.Record
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return false
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return false
		}
		text := string(raw)
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &text); err != nil {
				return false
			}
		}
		switch key {
		case slog.TimeKey:
			r.Time, err = time.Parse(time.RFC3339Nano, text)
		case slog.LevelKey:
			err = r.Level.UnmarshalText([]byte(text))
		case slog.MessageKey:
			r.Message = text
		default:
			r.AddAttrs(slog.String(fmt.Sprint(key), text))
		}
		if err != nil {
			return false
		}
	}
	ctx := context.Background()
	return !h.Enabled(ctx, r.Level) || h.Handle(ctx, r) == nil
}

// firstProgress is the time after which progress is logged for the first time.
const firstProgress = 5 * time.Second

// Progress shows what text returns, twice a second on a screen, or after 5 s and then every minute in the log, until the returned
// function is called. The elapsed seconds are at least 0.001.
func Progress(text func(elapsed float64) string, log *slog.Logger, screen *terminal.Screen) func() {
	begin, first, every := time.Now(), firstProgress, time.Minute
	show := func(s string) { log.Info("progress", "progress", s) }
	if screen != nil {
		first, every, show = 500*time.Millisecond, 500*time.Millisecond, screen.Show
	}
	ticker, quit, ended := time.NewTicker(first), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case now := <-ticker.C:
				ticker.Reset(every)
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
