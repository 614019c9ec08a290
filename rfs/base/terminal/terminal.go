// Package terminal prevents foreign text (names of snapshots and indices, messages of nodes, targets and sources) from controlling the
// terminal on which it is shown.
package terminal

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Clean returns s as one line, with control characters replaced by blanks.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return keep(r)
	}, s)
}

// keep returns the rune, or a blank for a rune that controls a terminal or hides text: C0 and C1 controls, marks that change the direction
// of writing, line separators, and invalid UTF-8.
func keep(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r < ' ', r >= 0x7f && r < 0xa0, r == utf8.RuneError,
		r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0x061c, r == 0xfeff:
		return ' '
	}
	return r
}

// Writer passes text on without runes that control the terminal, except for line breaks and tabs.
type Writer struct {
	to io.Writer

	mu   sync.Mutex
	rest []byte // the start of a rune that the next Write may complete
}

// NewWriter returns a Writer that writes to another writer.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Raw returns the writer behind a Writer, for JSON and for this program's own control of the screen. Other writers are returned unchanged.
func Raw(w io.Writer) io.Writer {
	if c, ok := w.(*Writer); ok {
		return c.to
	}
	return w
}

// Write writes b, cleaned.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.rest, b...)
	whole := len(text)
	for i := 1; i <= utf8.UTFMax-1 && i <= len(text); i++ {
		if c := text[len(text)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-i:]) {
				whole = len(text) - i
			}
			break
		}
	}
	w.rest = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(w.to, strings.Map(keep, string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(b), nil
}
