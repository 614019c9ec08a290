// Command fetch installs the S3 server of the tests in the user's cache unless there is one (testing/setup.sh runs it).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/rfsd/rfsd/testing/s3server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	bin, err := s3server.Install(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
	fmt.Println("setup: S3 server of the tests:", bin)
}
