// Command fetch installs the object stores of the tests in the user's cache unless they are there (testing/setup.sh runs it).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/s3server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed := false
	for _, server := range []struct {
		name    string
		install func(context.Context) (string, error)
	}{
		{"S3", s3server.Install}, {"Google Cloud Storage", objectserver.InstallGCS}, {"Azure Blob Storage", objectserver.InstallAzurite},
	} {
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
