package cms_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
)

// A worker leases a shard, is stopped in the middle, and hands the rest to a successor, which the next worker leases.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := boltcms.Open(filepath.Join(dir, "state.db"), time.Now)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	queue := cms.New(cms.Config{Store: store, Creator: "example"})
	if _, err := queue.SeedItems(ctx, slices.Values([]cms.ItemID{{Index: "weblogs"}})); err != nil {
		log.Fatal(err)
	}

	first, err := queue.AcquireNext(ctx, "worker-1", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("worker-1 begins at", first.Start())
	if err := first.Handoff(ctx, 40, cms.Work{Counts: cms.Counts{Ordinals: 40, Live: 40, Indexed: 40}}); err != nil {
		log.Fatal(err)
	}

	second, err := queue.AcquireNext(ctx, "worker-2", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("worker-2 begins at", second.Start())
	if err := second.Complete(ctx, cms.Work{Counts: cms.Counts{Ordinals: 60, Live: 60, Indexed: 60}}); err != nil {
		log.Fatal(err)
	}

	_, err = queue.AcquireNext(ctx, "worker-3", nil)
	var none *cms.NoneAvailable
	fmt.Println("nothing is left:", errors.As(err, &none))
	// Output:
	// worker-1 begins at 0
	// worker-2 begins at 40
	// nothing is left: true
}
