// Command fetch installs axe-core, which checks the status page for accessibility, in the user's cache unless it is there
// (testing/setup.sh runs it).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/rfsd/rfsd/testing/browser"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	path, err := browser.InstallAxe(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
	fmt.Println("setup: axe-core of the tests:", path)
}
