// Command fetch installs the S3 server of the tests in the user's cache unless it is there, and with the argument "all" the servers of
// Google Cloud Storage and Azure and the collector of OpenTelemetry, which take minutes to build and to download (testing/setup.sh runs
// it from the directory of this module).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/s3server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	type server struct {
		name, use string
		install   func(context.Context) (string, error)
	}
	const repositories = "the tests of repositories there"
	servers := []server{{"S3", repositories, s3server.Install}}
	if slices.Contains(os.Args[1:], "all") {
		collector := func(ctx context.Context) (string, error) { return objectserver.InstallCollector(ctx, ".") }
		servers = append(servers, server{"Google Cloud Storage", repositories, objectserver.InstallGCS},
			server{"Azure Blob Storage", repositories, objectserver.InstallAzurite}, server{"OpenTelemetry", "telemetry with a real collector", collector})
	}
	failed := false
	for _, server := range servers {
		bin, err := server.install(ctx)
		if err != nil {
			fmt.Fprintf(os.Stderr, "missing: the server of %s. Not run: %s. %v\n", server.name, server.use, err)
			failed = true
			continue
		}
		fmt.Printf("setup: server of %s of the tests: %s\n", server.name, bin)
	}
	if failed {
		os.Exit(1)
	}
}
