package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// margin begins the lines of the help, and those of a description but the first one.
const margin = "   "

// Lines returns the lines of the description without their margin.
func (c *Command) Lines() []string {
	lines := strings.Split(strings.TrimSpace(c.Description), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], margin)
	}
	return lines
}

// help prints what the command is for, its commands and its options.
func (p *position) help(out io.Writer) {
	c := p.command
	w := tabwriter.NewWriter(out, 1, 8, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintf(w, "NAME:\n%s%s - %s\n\nUSAGE:\n%s%s", margin, p.path, c.Usage, margin, p.path)
	switch {
	case len(c.Subcommands) > 0:
		fmt.Fprint(w, " command [options]")
	case len(c.Options) > 0:
		fmt.Fprint(w, " [options]")
	}
	fmt.Fprintln(w, strings.TrimRight(" "+c.ArgsUsage, " "))
	if p.path == p.app.Name {
		fmt.Fprintf(w, "\nVERSION:\n%s%s\n", margin, p.app.Version)
	}
	if c.Description != "" {
		fmt.Fprintln(w, "\nDESCRIPTION:")
		for _, line := range c.Lines() {
			fmt.Fprintln(w, strings.TrimRight(margin+line, " "))
		}
	}
	if len(c.Subcommands) > 0 {
		fmt.Fprintln(w, "\nCOMMANDS:")
		for _, sub := range c.Subcommands {
			if !sub.Hidden {
				fmt.Fprintf(w, "%s%s\t%s\n", margin, sub.Name, sub.Usage)
			}
		}
		fmt.Fprintf(w, "%shelp\tshow the help of a command: %s help COMMAND\n", margin, p.path)
	}
	fmt.Fprintln(w, "\nOPTIONS:")
	if p.path == p.app.Name {
		fmt.Fprintf(w, "%s--version, -v\tprint the version\n", margin)
	}
	fmt.Fprintf(w, "%s--help, -h\tshow help\n", margin)
	group := ""
	for _, d := range c.described() {
		if d.Group != group {
			group = d.Group
			fmt.Fprintf(w, "\n%s%s\n\n", margin, group)
		}
		fmt.Fprintf(w, "%s%s\t%s\n", margin, d.names(), d.text())
	}
}

// described returns the options that the help shows, sorted by group and name.
func (c *Command) described() (all []Description) {
	for _, o := range c.Options {
		if d := o.Describe(); !d.Hidden {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(x, y Description) int {
		if x.Group != y.Group {
			return strings.Compare(x.Group, y.Group)
		}
		return strings.Compare(x.Name, y.Name)
	})
	return all
}

func (d Description) names() string {
	value := " value"
	if d.Switch {
		value = ""
	}
	names := "--" + d.Name + value
	if d.Alias != "" {
		names += ", -" + d.Alias + value
	}
	if d.Several {
		names += " [ --" + d.Name + value + " ]"
	}
	return names
}

func (d Description) text() string {
	text := d.Usage
	if d.Default != "" && !d.Switch {
		text += " (default: " + d.Default + ")"
	}
	if d.Variable != "" {
		text += " [$" + d.Variable + "]"
	}
	return text
}
