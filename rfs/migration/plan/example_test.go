package plan_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// The plan of a snapshot states where the documents of each index go.
func ExampleNew() {
	blobs, err := repo.NewDir("../../../testing/fixtures/7.10.2-demo")
	if err != nil {
		log.Fatal(err)
	}
	p, err := plan.New(context.Background(), blobs, plan.Request{SnapshotName: "snap1"})
	if err != nil {
		log.Fatal(err)
	}
	if err := p.CheckTargets(); err != nil {
		log.Fatal(err)
	}
	for _, x := range p.Indices {
		fmt.Println(x.Name, x.Entry.Naming.Targets(), x.Source.NumShards)
	}
	// Output:
	// catalogue [catalogue] 1
	// orders [orders] 2
	// weblogs [weblogs] 1
}
