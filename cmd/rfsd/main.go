// Command rfsd moves Elasticsearch and OpenSearch clusters to OpenSearch by reading snapshots.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rfsd/rfsd/cmd/cli"
	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/manual"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/secret"
	"github.com/rfsd/rfsd/rfs/terminal"
	"github.com/rfsd/rfsd/rfs/worker"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		interrupt(signals, os.Args, os.Stderr, cancel)
		os.Exit(int(exit.Failed))
	}()
	code := run(ctx, os.Args)
	cancel()
	os.Exit(int(code))
}

// interrupt cancels the command at the first signal and returns at the second. It does not return for a daemon, which ends its
// workers itself at a second one, nor for a worker, which its daemon ends.
func interrupt(signals <-chan os.Signal, args []string, stderr io.Writer, cancel context.CancelFunc) {
	<-signals
	cancel()
	if len(args) > 1 && (args[1] == "run" || args[1] == "worker") {
		select {}
	}
	fmt.Fprintln(stderr, "\nrfsd: interrupted: ending what is under way; a second interruption ends at once")
	<-signals
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string) exit.Code {
	stderr := terminal.NewWriter(os.Stderr)
	if err := config.ForbidCoreDumps(); err != nil {
		fmt.Fprintln(stderr, "rfsd: warning:", err)
	}
	warnVisible(stderr, args)
	app := newApp()
	app.Out, app.Err = terminal.NewWriter(os.Stdout), stderr
	code, err := exit.Of(app.Run(ctx, args))
	if err != nil {
		fmt.Fprintln(stderr, "rfsd:", fault.Text(worker.Interrupted(ctx, err)))
	}
	return code
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
	app := &cli.App{
		Name:    "rfsd",
		Usage:   "move Elasticsearch and OpenSearch clusters to OpenSearch by reading their snapshots",
		Version: version,
		Commands: []*cli.Command{migrateCommand(), runCommand(), workerCommand(), evaluateCommand(), verifyCommand(), estimateCommand(), importCommand(), redriveCommand(), configCommand(),
			manual.Completion("rfsd"), manual.Command(newApp)},
	}
	exit.Document(app)
	return app
}
