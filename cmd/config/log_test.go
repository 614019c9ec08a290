package config_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
)

func TestLog_Least(t *testing.T) {
	for _, c := range []struct {
		given config.Values
		want  slog.Level
		error string
	}{
		{config.Values{}, slog.LevelInfo, ""},
		{config.Values{"quiet": {"true"}}, slog.LevelWarn, ""},
		{config.Values{"quiet": {"true"}, "log-level": {"error"}}, slog.LevelError, ""},
		{config.Values{"quiet": {"true"}, "log-level": {"debug"}}, slog.LevelWarn, ""},
		{config.Values{"verbose": {"true"}}, slog.LevelDebug, ""},
		{config.Values{"log-level": {"warn"}, "verbose": {"true"}}, slog.LevelDebug, ""},
		{config.Values{"quiet": {"true"}, "verbose": {"true"}}, 0, "exclude each other"},
		{config.Values{"log-format": {"xml"}}, 0, "log-format"},
	} {
		var o struct{ Log config.Log }
		err := config.Decode(c.given, &o)
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
