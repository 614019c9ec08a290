package report_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/report"
)

func TestHandler_Formats(t *testing.T) {
	for _, c := range []struct {
		format string
		asText bool
		want   string
	}{
		{"auto", true, "msg=hello a=1"},
		{"auto", false, `"msg":"hello","a":1`},
		{"text", false, "msg=hello a=1"},
		{"json", true, `"msg":"hello","a":1`},
	} {
		var b strings.Builder
		slog.New(report.Handler(&b, c.format, c.asText, report.LogOptions(slog.LevelInfo))).Info("hello", "a", 1)
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("%s, on a terminal %t: %s", c.format, c.asText, b.String())
		}
	}
}

// TestRelay: a line of a worker has the form of its node's log.
func TestRelay(t *testing.T) {
	for _, c := range []struct {
		name, line, want string
		relayed          bool
	}{
		{"a line", `{"time":"2026-11-24T06:25:23.5Z","level":"WARN","msg":"worker stopped","slot":3,"index":"a b","left":null,"of":[1,2]}`,
			"time=2026-11-24T06:25:23.500Z level=WARN msg=\"worker stopped\" slot=3 index=\"a b\" left=null of=[1,2]\n", true},
		{"a secret", `{"level":"INFO","msg":"target","url":"https://u:hidden@h"}`, "level=INFO msg=target url=https://***@h\n", true},
		{"below the level", `{"level":"DEBUG","msg":"x"}`, "", true},
		{"no JSON", "panic: x", "", false},
		{"an array", "[1]", "", false},
		{"a cut line", `{"level":"INFO","msg":"x`, "", false},
		{"a wrong level", `{"level":"LOUD","msg":"x"}`, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			relayed := report.Relay(report.Handler(&b, "text", false, report.LogOptions(slog.LevelInfo)), []byte(c.line))
			if relayed != c.relayed || b.String() != c.want {
				t.Errorf("relayed %t: %q", relayed, b.String())
			}
		})
	}
}
