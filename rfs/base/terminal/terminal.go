// Package terminal keeps text that others wrote (names of snapshots and indices, messages of nodes, targets and
// sources) from steering the terminal it is shown on.
package terminal

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Clean returns s as one line without control characters: each becomes a blank.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return keep(r)
	}, s)
}

// keep returns the rune, or a blank for a rune that steers a terminal or hides text: C0 and C1 controls,
// marks that turn the direction of writing, separators of lines, and bytes that are not UTF-8.
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

// Writer passes text on without what would steer the terminal; lines and tabs stay.
type Writer struct {
	to io.Writer

	mu   sync.Mutex
	rest []byte // the start of a rune that the next Write may complete
}

// NewWriter returns a Writer to another one.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Raw returns the writer behind a Writer, for JSON and for this program's own control of the screen; another writer
// is returned as it is.
func Raw(w io.Writer) io.Writer {
	if c, ok := w.(*Writer); ok {
		return c.to
	}
	return w
}

// Write passes b on, cleaned.
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
