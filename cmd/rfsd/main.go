// Command rfsd moves Elasticsearch and OpenSearch clusters to OpenSearch by reading snapshots.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/completion"
	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/manual"
	"github.com/rfsd/rfsd/cmd/program"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/interruption"
	"github.com/rfsd/rfsd/rfs/migration/worker"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	outliveReaders(os.Args)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		interrupt(signals, os.Args, os.Stderr, cancel)
		os.Exit(int(exit.Failed))
	}()
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	cancel()
	os.Exit(int(code))
}

// outliveReaders keeps a command that holds leases alive when the reader of its output exits, such as a worker's killed daemon: writes
// fail, and the work is completed or handed off. Without it the runtime ends the process at its next log line. Child processes are not
// affected.
func outliveReaders(args []string) {
	if len(args) > 1 && slices.Contains([]string{"migrate", "follow", "run", "worker", "verify", "import", "consume", "redrive"}, args[1]) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

// interrupt cancels the command at the first interruption and returns at the second. It does not return for a daemon, which ends its
// workers itself at a second one, nor for a worker, which its daemon ends.
func interrupt(signals <-chan os.Signal, args []string, stderr io.Writer, cancel context.CancelFunc) {
	var count interruption.Counter
	<-signals
	count.Add(time.Now())
	cancel()
	ends := len(args) < 2 || args[1] != "run" && args[1] != "worker"
	if ends {
		fmt.Fprintln(stderr, "\nrfsd: interrupted: ending the work in progress; a second interruption ends immediately")
	}
	for range signals {
		if count.Add(time.Now()) > 1 && ends {
			return
		}
	}
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) exit.Code {
	return program.Run(ctx, newApp, args, stdout, stderr, func(err error) string { return fault.Text(worker.Interrupted(ctx, err)) })
}

func newApp() *cli.App {
	app := &cli.App{
		Name:    "rfsd",
		Usage:   "migrate Elasticsearch and OpenSearch clusters to OpenSearch by reading their snapshots",
		Version: version,
		Commands: []*cli.Command{migrateCommand(), followCommand(), runCommand(), workerCommand(), planCommand(), verifyCommand(), importCommand(), consumeCommand(), redriveCommand(), configCommand(),
			config.Version("rfsd", version), completion.Command("rfsd"), manual.Command(newApp)},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cli.ShowAppHelp(c)
			}
			names := make([]string, len(c.App.VisibleCommands()))
			for i, command := range c.App.VisibleCommands() {
				names[i] = command.Name
			}
			return config.Usage("command %q does not exist; commands are %s", c.Args().First(), strings.Join(names, ", "))
		},
		// Exit codes are decided here, not by the library.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   config.UsageError,
	}
	exit.Document(app)
	return app
}
