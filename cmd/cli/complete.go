package cli

import (
	"fmt"
	"strings"
)

// complete is the last word of a command line whose last but one word a shell wants completed.
const complete = "--complete"

// complete prints what the last word may become: one candidate a line, with a tab and its meaning behind it. Nothing is
// printed where a file or any text may stand.
func (a *App) complete(words []string) {
	if len(words) == 0 {
		return
	}
	at := position{app: a, command: a.root(), path: a.Name}
	before, partial := words[:len(words)-1], words[len(words)-1]
	waits := false // the word before is an option that takes a value
	for _, word := range before {
		waits = false
		if !strings.HasPrefix(word, "-") {
			at.enter(word)
		} else if o := at.command.option(optionName(word)); o != nil {
			waits = !o.Describe().Switch && !strings.Contains(word, "=")
		}
	}
	candidate := func(name, usage string) {
		if strings.HasPrefix(name, partial) {
			fmt.Fprintf(a.Out, "%s\t%s\n", name, usage)
		}
	}
	switch {
	case waits:
	case strings.HasPrefix(partial, "-"):
		for _, d := range at.command.described() {
			candidate("--"+d.Name, d.Usage)
		}
		candidate("--help", "show help")
	default:
		for _, sub := range at.command.Subcommands {
			if !sub.Hidden {
				candidate(sub.Name, sub.Usage)
			}
		}
	}
}
