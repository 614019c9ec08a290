package gossip_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/gossip"
)

// Two nodes of a fleet meet, because the second one has the address of the first.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	first, err := gossip.Start(ctx, gossip.Config{Fleet: "example", Name: "a", Bind: "127.0.0.1:0", Quick: true, Log: quiet})
	if err != nil {
		log.Fatal(err)
	}
	second, err := gossip.Start(ctx, gossip.Config{
		Fleet: "example", Name: "b", Bind: "127.0.0.1:0", Quick: true, Log: quiet,
		Finders: []gossip.Finder{gossip.List{first.Address()}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for len(first.Members()) < 2 && ctx.Err() == nil {
		select {
		case <-first.Changed():
		case <-ctx.Done():
		}
	}
	for _, m := range first.Members() {
		fmt.Println(m.Name)
	}
	_ = second.Leave(time.Second)
	_ = first.Leave(time.Second)
	// Unordered output:
	// a
	// b
}
