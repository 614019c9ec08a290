package terminal

import (
	"bytes"
	"testing"
)

func TestScreen(t *testing.T) {
	for _, c := range []struct {
		name  string
		width int
		do    func(s *Screen)
		want  string
	}{
		{"a line is replaced", 80, func(s *Screen) { s.Show("1 %"); s.Show("2 %") }, "1 %\r\x1b[K2 %"},
		{"a log line goes above it", 80, func(s *Screen) { s.Show("1 %"); _, _ = s.Write([]byte("warning\n")) }, "1 %\r\x1b[Kwarning\n1 %"},
		{"nothing is cleared before the first line", 80, func(s *Screen) { _, _ = s.Write([]byte("warning\n")) }, "warning\n"},
		{"it is removed at the end", 80, func(s *Screen) { s.Show("1 %"); s.Show(""); _, _ = s.Write([]byte("done\n")) }, "1 %\r\x1b[Kdone\n"},
		{"a narrow terminal", 10, func(s *Screen) { s.Show("äöüäöüäöüäöü") }, "äöüäöüäöü"},
		{"the width is unknown", 0, func(s *Screen) { s.Show("a long line of progress") }, "a long line of progress"},
		{"the width changes", 10, func(s *Screen) {
			s.Show("0123456789012")
			s.width = func() int { return 13 }
			s.Show("0123456789012")
		}, "012345678\r\x1b[K012345678901"},
		{"what would steer the terminal is removed", 80, func(s *Screen) { s.Show("a\x1b[2Jb") }, "a [2Jb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			s := &Screen{out: NewWriter(&out), width: func() int { return c.width }}
			c.do(s)
			if out.String() != c.want {
				t.Errorf("%q, want %q", out.String(), c.want)
			}
		})
	}
}
