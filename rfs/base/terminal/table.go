package terminal

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Table aligns tab-separated cells in columns, two blanks apart. Columns of numbers are right-aligned.
type Table struct {
	to    io.Writer
	lines bytes.Buffer
}

// NewTable returns a Table that Flush writes to a writer.
func NewTable(to io.Writer) *Table { return &Table{to: to} }

// Write adds lines to the table.
func (t *Table) Write(b []byte) (int, error) { return t.lines.Write(b) }

// numeric matches the cells of a column of numbers: 218,533, 1.2 MiB, 97 %, 3/4, or nothing.
var numeric = regexp.MustCompile(`^([-–?]?|[-+]?([0-9]{1,3}(,[0-9]{3})+|[0-9]+)(\.[0-9]+)?( ?([KMGTPE]iB|B|%|s|ms))?(/[0-9,]+|/s)?)$`)

// Flush writes the table.
func (t *Table) Flush() error {
	var rows [][]string
	for line := range strings.Lines(t.lines.String()) {
		rows = append(rows, strings.Split(strings.TrimRight(line, "\n"), "\t"))
	}
	t.lines.Reset()
	var widths []int
	var right, digits []bool
	for i, row := range rows {
		for n, cell := range row {
			if n == len(widths) {
				widths, right, digits = append(widths, 0), append(right, true), append(digits, false)
			}
			widths[n] = max(widths[n], utf8.RuneCountInString(cell))
			if i > 0 { // the first line is the heading
				right[n] = right[n] && numeric.MatchString(cell)
				digits[n] = digits[n] || strings.ContainsAny(cell, "0123456789")
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for n, cell := range row {
			pad := strings.Repeat(" ", widths[n]-utf8.RuneCountInString(cell))
			if n > 0 {
				line.WriteString("  ")
			}
			if right[n] && digits[n] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(t.to, b.String())
	return err
}
