// Package program runs one command line of rfsd or rfsctl, from its arguments to its exit code.
package program

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/completion"
	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/guide"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/base/terminal"
)

// Run executes the command line args, which starts with the name of the program, with the commands of newApp, and returns the exit
// code. It prints the error of the command as text returns it.
func Run(ctx context.Context, newApp func() *cli.App, args []string, stdout, stderr io.Writer, text func(error) string) exit.Code {
	stdout, stderr = terminal.NewWriter(stdout), terminal.NewWriter(stderr)
	app, out := newApp(), output.New(stdout)
	if err := config.ForbidCoreDumps(); err != nil {
		fmt.Fprintf(stderr, "%s: warning: %v\n", app.Name, err)
	}
	warnVisible(stderr, app.Name, args)
	if words, ok := completion.Asked(args); ok {
		completion.Write(ctx, stdout, app.Commands, words)
		return exit.OK
	}
	app.Writer, app.ErrWriter, app.HelpName = out, stderr, app.Name
	help.SetProgram(app)
	out.Start(app.Name, guide.AsksJSON(args))
	args, err := guide.Arrange(app.Commands, args)
	if err == nil {
		out.Start(app.Name, false) // the command decides
		err = app.RunContext(ctx, args)
	}
	return out.Finish(app.Name, err, text, stderr)
}

// warnVisible warns of secrets on the command line. The daemon and config refuse them.
func warnVisible(stderr io.Writer, program string, args []string) {
	if len(args) > 1 && (args[1] == "run" || args[1] == "config") {
		return
	}
	for _, name := range secret.Arguments(args) {
		fmt.Fprintf(stderr, "%s: warning: --%s holds a secret, which is visible to other users of this machine: %s\n", program, name, Unseen(name))
	}
}

// Unseen returns how to give the secret of an option so that other users of the machine do not see it.
func Unseen(option string) string {
	if which, ok := strings.CutSuffix(option, "-host"); ok {
		return "use --" + which + "-username with --" + which + "-password-file or " + config.Variable(which+"-password")
	}
	if strings.HasSuffix(option, "-password") {
		return "use --" + option + "-file or " + config.Variable(option)
	}
	return "use " + config.Variable(option)
}
