package estimate_test

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/migration/estimate"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/operation/trial"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Without a measured rate of sending there is no estimate, and the result names the reason.
func Example() {
	ctx := context.Background()
	blobs, err := repo.NewDir("../../../testing/fixtures/7.10.2-demo")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := plan.New(ctx, blobs, plan.Request{SnapshotName: "snap1", Sizes: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	run := estimate.Run{Plan: p, Trial: plan.Trial{Documents: 100, Prefix: "rfsd-trial-"}, Blobs: blobs, Memory: budget.New(1<<20, 0), Slots: 1}
	result, err := run.Whole(ctx, &summary.Summary{}, 0, trial.Measured{}, "rate of sending: the target did not answer")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Estimate == nil, result.Problems)
	// Output: true [rate of sending: the target did not answer]
}
