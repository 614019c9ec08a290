package config

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// Bounds of the width of the help, in columns.
const (
	leastWidth, usualWidth, mostWidth = 60, 100, 120
	mostIndent                        = 34 // of the texts of options
)

// helpAll is the option that shows every option of a command. The library does not know it: Arrange replaces it.
const helpAll = "help-all"

// helpWidth returns the number of columns for the help.
func helpWidth() int {
	n, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil || n <= 0 {
		return usualWidth
	}
	return min(max(n, leastWidth), mostWidth)
}

// setHelp gives a command its help: its most frequent options, or all of them.
func setHelp(c *cli.Command, called string, all bool) {
	text := helpText(c, called, all, helpWidth())
	c.CustomHelpTemplate = strings.ReplaceAll(text, "{{", `{{"{{"}}`) // which the library reads as a template
}

// helpText returns the help of a command.
func helpText(c *cli.Command, called string, all bool, width int) string {
	g, guided := guides[called]
	settings := slices.DeleteFunc(Honours(c), func(s Setting) bool { return s.Hidden })
	var b strings.Builder
	b.WriteString(wrapped(called+" - "+c.Usage, width, "\n    ") + "\n\n")
	fmt.Fprintf(&b, "Usage: %s%s [options]\n", called, strings.TrimSuffix(" "+c.ArgsUsage, " "))
	about, codes, _ := strings.Cut(c.Description, "Exit codes:\n")
	about = strings.TrimSpace(about)
	if guided && !all {
		about, _, _ = strings.Cut(about, "\n\n")
	}
	if about != "" {
		b.WriteString("\n" + about + "\n")
	}
	for i, e := range g.examples {
		if i == 0 {
			b.WriteString("\nExamples:\n")
		}
		fmt.Fprintf(&b, "  # %s\n  %s\n", e.Task, strings.ReplaceAll(wrapped(unbroken(e.Line), width-4, " \\\n      "), fixed, " "))
	}
	if guided && !all {
		fmt.Fprintf(&b, "\nFrequent options (of %d):\n", len(settings))
		var names, texts []string
		for _, name := range g.options {
			names, texts = append(names, strings.TrimSuffix("--"+name+" "+brief[name][0], " ")), append(texts, brief[name][1])
		}
		writeOptions(&b, append(names, "--"+helpAll), append(texts, "list all options"), width)
	} else {
		writeGroups(&b, settings, width)
	}
	if codes != "" {
		b.WriteString("\nExit codes:\n" + strings.TrimRight(codes, "\n") + "\n")
	}
	return b.String()
}

// writeGroups writes all options under the headings of their groups.
func writeGroups(b *strings.Builder, settings []Setting, width int) {
	groups := map[string][]Setting{}
	var order []string
	for _, s := range settings {
		if groups[s.Group] == nil {
			order = append(order, s.Group)
		}
		groups[s.Group] = append(groups[s.Group], s)
	}
	SortGroups(order)
	variables := ""
	for _, group := range order {
		fmt.Fprintf(b, "\n%s:\n", cmp.Or(group, "Options"))
		var names, texts []string
		for _, s := range groups[group] {
			name := "--" + s.Name
			if s.Alias != "" {
				name = "-" + s.Alias + ", " + name
			}
			if s.Kind != Bool {
				name += " " + s.placeholder()
			}
			text := s.Usage()
			if s.Default != "" && !strings.Contains(text, "(default") {
				text += " (default: " + s.Default + ")"
			}
			if variables == "" && s.Variable() != "" {
				variables = fmt.Sprintf("\nEach option can be given by a variable, too: --%s by %s. The command line wins.\n", s.Name, s.Variable())
			}
			names, texts = append(names, name), append(texts, text)
		}
		writeOptions(b, names, texts, width)
	}
	b.WriteString(variables)
}

// SortGroups sorts headings in the order of the work.
func SortGroups(names []string) {
	slices.SortStableFunc(names, func(x, y string) int { return placeOf(x) - placeOf(y) })
}

// placeOf returns the place of a heading.
func placeOf(group string) int {
	if i := slices.Index(groupOrder, group); i >= 0 {
		return i
	}
	return len(groupOrder)
}

// writeOptions writes options and their texts in two columns.
func writeOptions(b *strings.Builder, names, texts []string, width int) {
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
		b.WriteString(line + wrapped(texts[i], width-indent, "\n"+strings.Repeat(" ", indent)) + "\n")
	}
}

// wrapped returns a text with a line end instead of a blank wherever a line would be longer than width columns.
func wrapped(text string, width int, end string) string {
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

// placeholder returns the word that represents the value of a setting.
func (s Setting) placeholder() string {
	switch {
	case brief[s.Name][0] != "":
		return brief[s.Name][0]
	case s.field == reflect.TypeFor[time.Duration]():
		return "DURATION"
	case s.Kind == Text && s.field.Kind() == reflect.Int64:
		return "SIZE"
	case s.Kind == Number:
		return "N"
	case s.check == "url":
		return "URL"
	case s.check == "file":
		return "FILE"
	}
	return "VALUE"
}
