package manual

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/terminal"
)

const completionHelp = `Prints a script that completes commands and options in your shell:

  bash: PROGRAM completion bash > /etc/bash_completion.d/PROGRAM
  zsh:  PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"
  fish: PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish`

// The program itself prints what may follow, asked with --generate-bash-completion as its last word.
const (
	bashCompletion = `_PROGRAM() {
  local words
  words=$("${COMP_WORDS[@]:0:COMP_CWORD}" "${COMP_WORDS[COMP_CWORD]}" --generate-bash-completion 2>/dev/null) ||
    words=$("${COMP_WORDS[@]:0:COMP_CWORD}" --generate-bash-completion 2>/dev/null)
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o bashdefault -o default -F _PROGRAM PROGRAM
`
	zshCompletion = `#compdef PROGRAM
_PROGRAM() {
  local -a words_
  words_=("${(@f)$(${words[@]:0:#words[@]-1} ${words[-1]} --generate-bash-completion 2>/dev/null)}")
  compadd -- ${words_%%:*}
}
if [ "$funcstack[1]" = _PROGRAM ]; then _PROGRAM "$@"; else compdef _PROGRAM PROGRAM; fi
`
)

// Completion returns the command that prints the completion scripts of a program, whose commands app returns.
func Completion(program string, app func() *cli.App) *cli.Command {
	return config.Raw[config.None](cli.Command{
		Name: "completion", Usage: "print a completion script for bash, zsh or fish", ArgsUsage: "bash|zsh|fish",
		Description: strings.ReplaceAll(completionHelp, "PROGRAM", program),
	}, func(_ context.Context, call *config.Call) error {
		if len(call.Args) != 1 {
			return config.Usage("which shell? %s completion takes bash, zsh or fish", program)
		}
		script, err := completion(program, app, call.Args[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(terminal.Raw(call.Out), script)
		return err
	})
}

func completion(program string, app func() *cli.App, shell string) (string, error) {
	switch shell {
	case "bash":
		return strings.ReplaceAll(bashCompletion, "PROGRAM", program), nil
	case "zsh":
		return strings.ReplaceAll(zshCompletion, "PROGRAM", program), nil
	case "fish":
		a := app()
		a.Setup()
		script, err := a.ToFishCompletion()
		if err != nil {
			return "", fmt.Errorf("completion: %w", err)
		}
		return script, nil
	}
	return "", config.Usage("which shell? %s completion takes bash, zsh or fish, not %q", program, shell)
}
