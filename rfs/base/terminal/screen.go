package terminal

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// Screen shows one line of progress below all other output.
type Screen struct {
	out   io.Writer
	width func() int // current columns; 0: unknown

	mu    sync.Mutex
	shown string
}

// NewScreen returns a Screen on a file. Its output is cleaned like a Writer's.
func NewScreen(f *os.File) *Screen {
	return &Screen{out: NewWriter(f), width: func() int {
		w, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0
		}
		return w
	}}
}

// Write writes complete lines above the line of progress.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	n, err := s.out.Write(b)
	s.draw()
	return n, err
}

// Show replaces the line of progress; "" removes it. A line wider than the terminal is truncated.
func (s *Screen) Show(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.shown = line
	s.draw()
}

func (s *Screen) clear() {
	if s.shown != "" {
		fmt.Fprint(Raw(s.out), "\r\x1b[K")
	}
}

func (s *Screen) draw() {
	line := []rune(s.shown)
	if w := s.width(); w > 4 && len(line) >= w {
		line = line[:w-1]
	}
	fmt.Fprint(s.out, string(line))
}
