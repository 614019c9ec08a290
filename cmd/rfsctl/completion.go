package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/terminal"
)

const completionHelp = `Prints a script that completes commands and flags in your shell:

   bash: rfsctl completion bash > /etc/bash_completion.d/rfsctl
   zsh:  rfsctl completion zsh > "${fpath[1]}/_rfsctl"
   fish: rfsctl completion fish > ~/.config/fish/completions/rfsctl.fish`

// The program itself tells what may follow, asked with --generate-bash-completion as its last word.
const (
	bashCompletion = `_rfsctl() {
  local words
  words=$("${COMP_WORDS[@]:0:COMP_CWORD}" "${COMP_WORDS[COMP_CWORD]}" --generate-bash-completion 2>/dev/null) ||
    words=$("${COMP_WORDS[@]:0:COMP_CWORD}" --generate-bash-completion 2>/dev/null)
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o bashdefault -o default -F _rfsctl rfsctl
`
	zshCompletion = `#compdef rfsctl
_rfsctl() {
  local -a words_
  words_=("${(@f)$(${words[@]:0:#words[@]-1} ${words[-1]} --generate-bash-completion 2>/dev/null)}")
  compadd -- ${words_%%:*}
}
if [ "$funcstack[1]" = _rfsctl ]; then _rfsctl "$@"; else compdef _rfsctl rfsctl; fi
`
)

func completionCommand() *cli.Command {
	return config.Raw[config.None](cli.Command{
		Name: "completion", Usage: "print a completion script for bash, zsh or fish", ArgsUsage: "bash|zsh|fish", Description: completionHelp,
	}, func(_ context.Context, call *config.Call) error {
		if len(call.Args) != 1 {
			return fmt.Errorf("which shell? rfsctl completion takes bash, zsh or fish: %w", fault.ErrConfig)
		}
		var script string
		switch shell := call.Args[0]; shell {
		case "bash":
			script = bashCompletion
		case "zsh":
			script = zshCompletion
		case "fish":
			app := newApp()
			app.Setup()
			var err error
			if script, err = app.ToFishCompletion(); err != nil {
				return fmt.Errorf("completion: %w", err)
			}
		default:
			return fmt.Errorf("which shell? rfsctl completion takes bash, zsh or fish, not %q: %w", shell, fault.ErrConfig)
		}
		_, err := fmt.Fprint(terminal.Raw(call.Out), script)
		return err
	})
}
