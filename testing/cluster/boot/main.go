// Command boot starts real servers and holds them until interrupted:
//
//	go run ./testing/cluster/boot -version 2.19.4 [-port 9200] [-secured] [-nodes 3] [key=value ...]
//	go run ./testing/cluster/boot elasticsearch 7.10.2 [key=value ...]
//	go run ./testing/cluster/boot -product kafka
//
// It prints the URL of each node once it answers, and on standard error what else one wants to know.
// Exit codes: 0 interrupted, 1 failed, 3 this machine lacks something that the server needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/rfsd/rfsd/testing/cluster"
)

func main() {
	err := run(os.Args[1:])
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, cluster.ErrMissing):
		fmt.Fprintln(os.Stderr, "boot:", err)
		os.Exit(3)
	default:
		fmt.Fprintln(os.Stderr, "boot:", err)
		os.Exit(1)
	}
}

// wanted is what the command line asks for.
type wanted struct {
	product, version string
	nodes            int
	opts             []cluster.Option
}

func parse(args []string) (wanted, error) {
	flags := flag.NewFlagSet("boot", flag.ContinueOnError)
	product := flags.String("product", "opensearch", "opensearch, elasticsearch or kafka")
	version := flags.String("version", "", "version, such as 2.19.4")
	port := flags.Int("port", 0, "HTTP port on loopback; 0 takes a free one")
	secured := flags.Bool("secured", false, "TLS, basic auth and an admin client certificate (OpenSearch 1.x and 2.x)")
	nodes := flags.Int("nodes", 1, "nodes of the cluster (OpenSearch)")
	heap := flags.String("heap", "512m", "Java heap of each node")
	if err := flags.Parse(args); err != nil {
		return wanted{}, err
	}
	rest := flags.Args()
	if *version == "" && len(rest) >= 2 {
		*product, *version, rest = rest[0], rest[1], rest[2:]
	}
	if *product == "kafka" && len(rest) == 0 {
		return wanted{product: *product}, nil
	}
	if *version == "" || *nodes < 1 || *nodes > 9 || *nodes > 1 && *port != 0 {
		return wanted{}, fmt.Errorf("say which: opensearch (%s) or elasticsearch (%s), then the version; 1 to 9 nodes, -port only for one",
			strings.Join(cluster.Versions("opensearch"), ", "), strings.Join(cluster.Versions("elasticsearch"), ", "))
	}
	w := wanted{product: *product, version: *version, nodes: *nodes, opts: []cluster.Option{cluster.Heap(*heap)}}
	if *port != 0 {
		w.opts = append(w.opts, cluster.Port(*port))
	}
	if *secured {
		w.opts = append(w.opts, cluster.Secured())
	}
	for _, kv := range rest {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return wanted{}, fmt.Errorf("%q is not key=value", kv)
		}
		w.opts = append(w.opts, cluster.Setting(k, v))
	}
	return w, nil
}

// broker starts a Kafka broker and holds it until ctx is done.
func broker(ctx context.Context) (err error) {
	b, err := cluster.BootKafka(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Stop()) }()
	fmt.Println(b.Address)
	fmt.Fprintf(os.Stderr, "Kafka %s; TLS with PLAIN or SCRAM: %s, the same without TLS: %s; user %s, password %s, authority %s\n", cluster.KafkaVersion, b.Secured, b.Login, b.Username, b.Password, b.CACert)
	<-ctx.Done()
	return nil
}

func run(args []string) (err error) {
	w, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if w.product == "kafka" {
		return broker(ctx)
	}
	nodes, err := cluster.BootNodes(ctx, w.product, w.version, w.nodes, w.opts...)
	if err != nil {
		return err
	}
	defer func() {
		for _, n := range nodes {
			err = errors.Join(err, n.Stop())
		}
	}()
	for _, n := range nodes {
		fmt.Println(n.URL)
		fmt.Fprintf(os.Stderr, "%s %s: pid %d, repositories below %s\n", n.Product, n.Version, n.PID(), n.Repos)
	}
	if n := nodes[0]; n.Username != "" {
		fmt.Fprintf(os.Stderr, "user %s, password %s, authority %s, admin certificate %s, key %s\n",
			n.Username, n.Password, n.CACert, n.AdminCert, n.AdminKey)
	}
	<-ctx.Done()
	return nil
}
