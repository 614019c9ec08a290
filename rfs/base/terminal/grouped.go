package terminal

import (
	"fmt"
	"io"
	"strings"
)

// Grouped collects lines that are equal for several names, in order of their first occurrence.
type Grouped struct {
	lines []string
	names map[string][]string
}

// Add adds a name to a line. %s in the line is replaced by the names.
func (g *Grouped) Add(name, line string) {
	if g.names == nil {
		g.names = map[string][]string{}
	}
	if g.names[line] == nil {
		g.lines = append(g.lines, line)
	}
	g.names[line] = append(g.names[line], name)
}

// Write prints each line once. For a single name, one precedes it.
func (g *Grouped) Write(w io.Writer, one string) {
	for _, line := range g.lines {
		names := g.names[line]
		text := one + names[0]
		if n := len(names); n > 1 {
			text = fmt.Sprintf("%d indices (%s)", n, abbreviated(names))
		}
		fmt.Fprintf(w, line+"\n", text)
	}
}

const shownNames = 3

func abbreviated(names []string) string {
	if len(names) <= shownNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shownNames], ", "), len(names)-shownNames)
}

// Escaped returns a text for use in a format that prints it unchanged.
func Escaped(text string) string { return strings.ReplaceAll(text, "%", "%%") }
