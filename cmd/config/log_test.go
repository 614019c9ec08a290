package config

import (
	"log/slog"
	"strings"
	"testing"
)

func TestLog_Least(t *testing.T) {
	for _, c := range []struct {
		given Values
		want  slog.Level
		error string
	}{
		{Values{}, slog.LevelInfo, ""},
		{Values{"quiet": {"true"}}, slog.LevelWarn, ""},
		{Values{"quiet": {"true"}, "log-level": {"error"}}, slog.LevelError, ""},
		{Values{"quiet": {"true"}, "log-level": {"debug"}}, slog.LevelWarn, ""},
		{Values{"verbose": {"true"}}, slog.LevelDebug, ""},
		{Values{"log-level": {"warn"}, "verbose": {"true"}}, slog.LevelDebug, ""},
		{Values{"quiet": {"true"}, "verbose": {"true"}}, 0, "exclude each other"},
		{Values{"log-format": {"xml"}}, 0, "log-format"},
	} {
		var o struct{ Log Log }
		err := Decode(c.given, &o)
		switch {
		case c.error != "":
			if err == nil || !strings.Contains(err.Error(), c.error) {
				t.Errorf("%v: %v", c.given, err)
			}
		case err != nil || o.Log.MinLevel() != c.want:
			t.Errorf("%v: %v, %v", c.given, o.Log.MinLevel(), err)
		}
	}
}
