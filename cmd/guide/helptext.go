package guide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/help"
)

// helpAll is the option that shows every option of a command. The library does not know it: Arrange replaces it.
const helpAll = "help-all"

// setHelp gives a command its help: its most frequent options, or all of them.
func setHelp(c *cli.Command, called string, all bool) {
	c.CustomHelpTemplate = help.Template(helpText(c, called, all, help.Width()))
}

// helpText returns the help of a command.
func helpText(c *cli.Command, called string, all bool, width int) string {
	g, guided := guides[called]
	settings := slices.DeleteFunc(config.Honours(c), func(s config.Setting) bool { return s.Hidden })
	var b strings.Builder
	b.WriteString(help.Wrapped(called+" - "+c.Usage, width, "\n    ") + "\n\n")
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
		fmt.Fprintf(&b, "  # %s\n  %s\n", e.Task, help.CommandLine(e.Line, width-4, "      "))
	}
	if guided && !all {
		fmt.Fprintf(&b, "\nFrequent options (of %d):\n", len(settings))
		var names, texts []string
		for _, name := range g.options {
			short := briefOf(called, name)
			names, texts = append(names, strings.TrimSuffix("--"+name+" "+short[0], " ")), append(texts, short[1])
		}
		help.WriteOptions(&b, append(names, "--"+helpAll), append(texts, "list all options"), width)
	} else {
		writeGroups(&b, settings, width)
	}
	if codes != "" {
		b.WriteString("\nExit codes:\n" + strings.TrimRight(codes, "\n") + "\n")
	}
	return b.String()
}

// writeGroups writes all options under the headings of their groups.
func writeGroups(b *strings.Builder, settings []config.Setting, width int) {
	groups := map[string][]config.Setting{}
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
			if s.Kind != config.Bool {
				name += " " + placeholder(s)
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
		help.WriteOptions(b, names, texts, width)
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

// briefOf returns the placeholder and the help of an option in one line: as the command has it, its program, or all commands.
func briefOf(called, name string) [2]string {
	program, _, _ := strings.Cut(called, " ")
	for _, key := range []string{called + " --" + name, program + " --" + name} {
		if own, is := brief[key]; is {
			return own
		}
	}
	return brief[name]
}

// own are placeholders that do not follow from the type of an option, and that the short help does not have.
var own = map[string]string{"coordinator-bucket": "URI", "coordinator-file": "FILE", "dir": "DIR", "since": "NAME", "to": "DIR"}

// placeholder returns the word that represents the value of a setting.
func placeholder(s config.Setting) string {
	return cmp.Or(brief[s.Name][0], own[s.Name], s.Placeholder())
}
