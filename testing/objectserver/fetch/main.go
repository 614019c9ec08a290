// Command fetch installs the S3 server of the tests in the user's cache unless it is there, and with the argument "all" the servers of
// Google Cloud Storage and Azure, which take minutes to build and to download (testing/setup.sh runs it).
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
		name    string
		install func(context.Context) (string, error)
	}
	servers := []server{{"S3", s3server.Install}}
	if slices.Contains(os.Args[1:], "all") {
		servers = append(servers, server{"Google Cloud Storage", objectserver.InstallGCS}, server{"Azure Blob Storage", objectserver.InstallAzurite})
	}
	failed := false
	for _, server := range servers {
		bin, err := server.install(ctx)
		if err != nil {
			fmt.Fprintf(os.Stderr, "missing: the server of %s. Not run: the tests of repositories there. %v\n", server.name, err)
			failed = true
			continue
		}
		fmt.Printf("setup: server of %s of the tests: %s\n", server.name, bin)
	}
	if failed {
		os.Exit(1)
	}
}
