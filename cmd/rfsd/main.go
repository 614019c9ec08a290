// Command rfsd moves Elasticsearch and OpenSearch clusters to OpenSearch by reading snapshots.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/secret"
	"github.com/rfsd/rfsd/rfs/terminal"
	"github.com/rfsd/rfsd/rfs/worker"
)

// version is set by the build.
var version = "dev"

// Exit codes, documented in the help of each command and in the README.
const (
	exitOK       = 0 // every document arrived
	exitFailed   = 1 // usage, configuration or target; or not complete
	exitRuns     = 4 // --snapshot-no-wait: the source is still making the snapshot
	exitSnapshot = 5 // the snapshot could not be read, before any work was done
	exitRefused  = 6 // complete, but documents were refused, have no source or only a part of it
	exitDamaged  = 7 // complete, but shards failed, are damaged or missing

	exitDifferent = 8 // a verification found differences
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args)
	stop()
	os.Exit(code)
}

// run executes one command line and gives its exit code.
func run(ctx context.Context, args []string) int {
	stderr := terminal.NewWriter(os.Stderr)
	if err := config.ForbidCoreDumps(); err != nil {
		fmt.Fprintln(stderr, "rfsd: warning:", err)
	}
	warnVisible(stderr, args)
	app := newApp()
	app.Writer, app.ErrWriter = terminal.NewWriter(os.Stdout), stderr
	args, err := config.Arrange(app.Commands, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	var coded *codedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		if coded.err != nil {
			fmt.Fprintln(stderr, "rfsd:", fault.Text(worker.Interrupted(ctx, coded.err)))
		}
		return coded.code
	default:
		fmt.Fprintln(stderr, "rfsd:", fault.Text(worker.Interrupted(ctx, err)))
		return exitFailed
	}
}

// warnVisible warns of secrets on the command line. The daemon refuses them.
func warnVisible(stderr io.Writer, args []string) {
	if len(args) > 1 && (args[1] == "run" || args[1] == "config") {
		return
	}
	for _, name := range secret.Arguments(args) {
		fmt.Fprintf(stderr, "rfsd: warning: --%s holds a secret, which is visible to other users of this machine: %s\n", name, secretWay(name))
	}
}

func newApp() *cli.App {
	return &cli.App{
		Name:                 "rfsd",
		Usage:                "move Elasticsearch and OpenSearch clusters to OpenSearch by reading their snapshots",
		Version:              version,
		EnableBashCompletion: true,
		Commands:             []*cli.Command{migrateCommand(), runCommand(), workerCommand(), evaluateCommand(), verifyCommand(), estimateCommand(), importCommand(), configCommand()},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cli.ShowAppHelp(c)
			}
			names := make([]string, len(c.App.VisibleCommands()))
			for i, command := range c.App.VisibleCommands() {
				names[i] = command.Name
			}
			return config.Usage("there is no command %q: there are %s", c.Args().First(), strings.Join(names, ", "))
		},
		// Exit codes are decided here, not by the library.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   config.UsageError,
	}
}

// codedError carries an exit code other than 1; without err nothing more is printed.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codedError) Unwrap() error { return e.err }
