package manual

import (
	"context"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/cmd/cli"
	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/terminal"
)

const completionHelp = `Prints a script that completes commands and options in your shell:

     bash: PROGRAM completion bash > /etc/bash_completion.d/PROGRAM
   zsh:  PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"
     fish: PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish`

// The program itself prints what may follow, asked with --complete behind the word that is to be completed.
var scripts = map[string]string{
	"bash": `_PROGRAM() {
  local words
  words=$("${COMP_WORDS[@]:0:COMP_CWORD}" "${COMP_WORDS[COMP_CWORD]}" --complete 2>/dev/null | cut -f1)
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o bashdefault -o default -F _PROGRAM PROGRAM
`,
	"zsh": `#compdef PROGRAM
_PROGRAM() {
  local -a words_
  words_=("${(@f)$("${(@)words[1,CURRENT-1]}" "${words[CURRENT]}" --complete 2>/dev/null | cut -f1)}")
  compadd -- ${words_} || _files
}
if [ "$funcstack[1]" = _PROGRAM ]; then _PROGRAM "$@"; else compdef _PROGRAM PROGRAM; fi
`,
	"fish": `function __PROGRAM_complete
  set -l before (commandline -opc)
  set -l partial (commandline -ct)
  set -e before[1]
  PROGRAM $before "$partial" --complete 2>/dev/null
end
complete -c PROGRAM -a '(__PROGRAM_complete)'
`,
}

// Completion returns the command that prints the completion scripts of a program.
func Completion(program string) *cli.Command {
	return config.Raw[config.None](cli.Command{
		Name: "completion", Usage: "print a completion script for bash, zsh or fish", ArgsUsage: "bash|zsh|fish",
		Description: strings.ReplaceAll(completionHelp, "PROGRAM", program),
	}, func(_ context.Context, call *config.Call) error {
		if len(call.Args) != 1 || scripts[call.Args[0]] == "" {
			return config.Usage("which shell? %s completion takes bash, zsh or fish", program)
		}
		_, err := fmt.Fprint(terminal.Raw(call.Out), strings.ReplaceAll(scripts[call.Args[0]], "PROGRAM", program))
		return err
	})
}
