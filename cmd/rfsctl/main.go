// Command rfsctl looks at snapshots and at the work of rfsd.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/completion"
	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/manual"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/base/terminal"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(int(code))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) exit.Code {
	stdout, stderr = terminal.NewWriter(stdout), terminal.NewWriter(stderr)
	if err := config.ForbidCoreDumps(); err != nil {
		fmt.Fprintln(stderr, "rfsctl: warning:", err)
	}
	for _, name := range secret.Arguments(args) {
		fmt.Fprintf(stderr, "rfsctl: warning: --%s holds a secret, which is visible to other users of this machine: give it by %s or a file\n", name, config.Variable(name))
	}
	if words, ok := completion.Asked(args); ok {
		completion.Write(ctx, stdout, newApp().Commands, words)
		return exit.OK
	}
	app, out := newApp(), output.New(stdout)
	app.Writer, app.ErrWriter = out, stderr
	out.Start("rfsctl", config.AsksJSON(args))
	args, err := config.Arrange(app.Commands, args)
	if err == nil {
		out.Start("rfsctl", false) // the command decides
		err = app.RunContext(ctx, args)
	}
	return out.Finish("rfsctl", err, fault.Text, stderr)
}

func newApp() *cli.App {
	app := &cli.App{
		Name:           "rfsctl",
		Usage:          "inspect snapshots, and inspect and control migrations",
		Version:        version,
		Commands:       append([]*cli.Command{snapshotCommand(), itemsCommand(), failuresCommand(), reportCommand(), certCommand(), cleanupCommand(), sessionsCommand(), cutoverCommand(), createdCommand(), undoCommand(), targetCommand(), pageCommand(), config.Version("rfsctl", version), completion.Command("rfsctl"), manual.Command(newApp)}, nodeCommands()...),
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   config.UsageError,
	}
	exit.Document(app)
	return app
}
