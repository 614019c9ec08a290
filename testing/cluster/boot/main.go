// Command boot starts one real server and holds it until interrupted:
//
//	go run ./testing/cluster/boot [-secured] opensearch 2.19.4 [key=value ...]
//
// It prints the URL once the node answers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/rfsd/rfsd/testing/cluster"
)

func main() {
	secured := flag.Bool("secured", false, "TLS, basic auth and an admin client certificate")
	flag.Parse()
	if err := run(flag.Args(), *secured); err != nil {
		fmt.Fprintln(os.Stderr, "boot:", err)
		os.Exit(1)
	}
}

func run(args []string, secured bool) error {
	if len(args) < 2 {
		return fmt.Errorf("say which: opensearch (%s) or elasticsearch (%s), then the version",
			strings.Join(cluster.Versions("opensearch"), ", "), strings.Join(cluster.Versions("elasticsearch"), ", "))
	}
	var opts []cluster.Option
	if secured {
		opts = append(opts, cluster.Secured())
	}
	for _, kv := range args[2:] {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return fmt.Errorf("%q is not key=value", kv)
		}
		opts = append(opts, cluster.Setting(k, v))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n, err := cluster.Boot(ctx, args[0], args[1], opts...)
	if err != nil {
		return err
	}
	fmt.Println(n.URL)
	fmt.Fprintf(os.Stderr, "%s %s: pid %d, repositories below %s\n", n.Product, n.Version, n.PID(), n.Repos)
	if n.Username != "" {
		fmt.Fprintf(os.Stderr, "user %s, password %s, authority %s, admin certificate %s, key %s\n", n.Username, n.Password, n.CACert, n.AdminCert, n.AdminKey)
	}
	<-ctx.Done()
	return n.Stop()
}
