// Package completion completes command lines in shells: commands, options and values. Names of snapshots, indices and sessions are read
// from the repository and the store that the rest of the line names.
package completion

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
)

const help = `Prints a script that completes commands, options and their values in your shell:

  bash: PROGRAM completion bash > /etc/bash_completion.d/PROGRAM
  zsh:  PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"
  fish: PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish

Names of snapshots, indices and sessions are read from the repository and the store that the line
names (or the environment, or --config), for at most two seconds.`

// Option is the last word of a command line that is completed: the words before it are the line, the last of them the one at the
// cursor, which may be empty.
const Option = "--generate-bash-completion"

// scripts are the scripts by shell. Where the program has no candidates, they complete names of files. fish compares candidates with the
// whole word, with the option before an equals sign; bash divides words at colons and equals signs, too: the script has the words of the line divided at
// blanks, and removes what bash regards as words before the last one.
var scripts = map[string]string{
	"bash": `_PROGRAM() {
  local line=${COMP_LINE:0:COMP_POINT} words head IFS=$' \t\n'
  read -ra words <<< "$line"
  [[ $line == *' ' ]] && words+=('')
  IFS=$'\n'
  COMPREPLY=($("${words[@]}" ` + Option + ` 2> /dev/null))
  head=${words[-1]#*=}
  COMPREPLY=("${COMPREPLY[@]#"${head%"${head##*:}"}"}")
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o bashdefault -o default -F _PROGRAM PROGRAM
`,
	"zsh": `#compdef PROGRAM
_PROGRAM() {
  local -a found
  found=(${(f)"$("${(@Q)words[1,CURRENT]}" ` + Option + ` 2> /dev/null)"})
  [[ $PREFIX == --*=* ]] && compset -P '*='
  if (( $#found )); then compadd -a found; else _files; fi
}
if [ "$funcstack[1]" = _PROGRAM ]; then _PROGRAM "$@"; else compdef _PROGRAM PROGRAM; fi
`,
	"fish": `function __PROGRAM_complete
  set -l word (commandline -ct)
  set -l words (commandline -opc) "$word"
  set -l option (string match -r -- '^--[^=]*=' "$word")
  set -l found ($words ` + Option + ` 2> /dev/null)
  set -q found[1]; or set found (__fish_complete_path (string replace -- "$option" '' "$word"))
  printf '%s\n' "$option"$found
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
`,
}

// Command returns the command that prints the scripts of a program.
func Command(program string) *cli.Command {
	return config.Raw[config.None](cli.Command{
		Name: "completion", Usage: "print a completion script for bash, zsh or fish", ArgsUsage: shells,
		Description: strings.ReplaceAll(help, "PROGRAM", program),
	}, func(_ context.Context, call *config.Call) error {
		shell := strings.Join(call.Args, " ")
		script, ok := scripts[shell]
		if !ok {
			return config.Usage("which shell? %s completion takes bash, zsh or fish, not %q", program, shell)
		}
		_, err := fmt.Fprint(call.Out.Raw(), strings.ReplaceAll(script, "PROGRAM", program))
		return err
	})
}

// shells are the arguments of the command.
const shells = "bash|zsh|fish"
