// Command rfsctl looks at snapshots and at the work of rfsd.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/completion"
	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/manual"
	"github.com/rfsd/rfsd/cmd/program"
	"github.com/rfsd/rfsd/rfs/base/fault"
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
	return program.Run(ctx, newApp, args, stdout, stderr, fault.Text)
}

func newApp() *cli.App {
	app := &cli.App{
		Name:           "rfsctl",
		Usage:          "inspect snapshots, and inspect and control migrations",
		Version:        version,
		Commands:       append(nodeCommands(), pageCommand(), sessionsCommand(), itemsCommand(), failuresCommand(), reportCommand(), createdCommand(), undoCommand(), cleanupCommand(), cutoverCommand(), targetCommand(), snapshotCommand(), certCommand(), config.Version("rfsctl", version), completion.Command("rfsctl"), manual.Command(newApp)),
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   config.UsageError,
	}
	exit.Document(app)
	return app
}
