// Package help has the long help texts of commands, and the layout of help in lines and columns.
package help

import (
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// UsualWidth is the width of the help in columns where COLUMNS is not set.
const UsualWidth = 100

// Bounds of the width of the help, in columns.
const (
	leastWidth, mostWidth = 60, 120
	mostIndent            = 34 // of the texts of options
)

// Width returns the number of columns for the help.
func Width() int {
	n, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil || n <= 0 {
		return UsualWidth
	}
	return min(max(n, leastWidth), mostWidth)
}

// WriteOptions writes options and their texts in two columns.
func WriteOptions(b *strings.Builder, names, texts []string, width int) {
	indent := 0
	for _, name := range names {
		indent = max(indent, utf8.RuneCountInString(name)+4)
	}
	indent = min(indent, mostIndent)
	for i, name := range names {
		line := "  " + name
		if n := utf8.RuneCountInString(line); n+2 > indent {
			line += "\n" + strings.Repeat(" ", indent)
		} else {
			line += strings.Repeat(" ", indent-n)
		}
		b.WriteString(line + Wrapped(texts[i], width-indent, "\n"+strings.Repeat(" ", indent)) + "\n")
	}
}

// Wrapped returns a text with a line end instead of a blank wherever a line would be longer than width columns.
func Wrapped(text string, width int, end string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\n' }) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteString(end)
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// fixed represents a blank at which a line is not broken.
const fixed = "\u00a0"

// unbroken returns a command line that is not broken between an option and its value.
func unbroken(line string) string {
	var b strings.Builder
	option := false
	for i, word := range strings.Split(line, " ") {
		switch is := strings.HasPrefix(word, "--"); {
		case option && !is:
			b.WriteString(fixed)
			option = false
		case i > 0:
			b.WriteByte(' ')
			option = is
		}
		b.WriteString(word)
	}
	return b.String()
}

// CommandLine returns a command line with a backslash and a line end, followed by an indent, wherever it would be longer than width
// columns, but not between an option and its value.
func CommandLine(line string, width int, indent string) string {
	return strings.ReplaceAll(Wrapped(unbroken(line), width, " \\\n"+indent), fixed, " ")
}
