package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/rfsd/rfsd/store"
)

// loopback connects nodes of one machine, without TLS.
type loopback struct{ net.Listener }

func (loopback) Dial(address string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", address, timeout)
}

// The first node of a fleet bootstraps the Raft cluster, becomes its leader, and puts two hints. The expired one is not listed.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	hints, err := store.Open(store.Config{
		Dir: dir, ID: "n1", Address: port.Addr().String(), Streams: loopback{port}, Cluster: store.Cluster{ID: "blue", Epoch: 1},
		Bootstrap: true, Quick: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	for !hints.IsLeader() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	now := time.Now()
	err = hints.Put(ctx,
		store.Hint{Kind: "order", Key: "weblogs", Expires: now.Add(time.Minute).UnixMilli(), Payload: json.RawMessage(`["weblogs/1","weblogs/0"]`)},
		store.Hint{Kind: "order", Key: "articles", Expires: now.Add(-time.Minute).UnixMilli()},
	)
	if err != nil {
		log.Fatal(err)
	}
	all, err := hints.List("order")
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range all {
		fmt.Println(h.Key, string(h.Payload))
	}
	if err := hints.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: weblogs ["weblogs/1","weblogs/0"]
}
