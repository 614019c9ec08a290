package difference_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rfsd/rfsd/rfs/source/difference"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Two snapshots of a repository are compared index by index, with at most 1 MiB for the numbers of a shard.
func Example() {
	ctx := context.Background()
	r, err := repo.Open(ctx, "../../../testing/fixtures/os2.19.4-history", repo.Options{})
	if err != nil {
		log.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(ctx, r)
	if err != nil {
		log.Fatal(err)
	}
	earlier, err := catalog.Snapshot(ctx, "snap-1")
	if err != nil {
		log.Fatal(err)
	}
	later, err := catalog.Snapshot(ctx, "snap-3")
	if err != nil {
		log.Fatal(err)
	}
	for x := range difference.Snapshots(ctx, r, earlier, later, difference.Options{Selected: func(string) bool { return true }, Memory: 1 << 20}) {
		fmt.Println(x.Name, x.State)
		for n, s := range x.Shards {
			fmt.Printf("  shard %d: %d new, %d gone, %d unchanged\n", n, s.New, s.Gone, s.Unchanged)
		}
	}
	// Output:
	// again recreated
	// grows compared
	//   shard 0: 12 new, 21 gone, 19 unchanged
	// leaves removed
}
