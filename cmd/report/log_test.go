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
