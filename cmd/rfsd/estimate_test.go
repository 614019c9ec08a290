package main

import (
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

func TestTheEstimateIsNearWhatIsReadInTheEnd(t *testing.T) {
	blobs, err := repo.Open(t.Context(), filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo"), repo.S3Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.UnionTypes, EmitType: plan.EmitAuto, Sizes: true})
	if err != nil {
		t.Fatal(err)
	}
	counted := repo.NewCounting(blobs)
	e, err := estimate(t.Context(), counted, plan, true)
	if err != nil {
		t.Fatal(err)
	}
	var bytes int64
	for _, x := range plan.Indices {
		for _, b := range x.Entry.Bytes {
			bytes += b
		}
	}
	// 159 root documents, and 184 nested ones below orders.
	if e.Total.Bytes != bytes || e.Total.Shards != 4 || e.Total.Documents != 343 || len(e.Total.Problems) > 0 || e.Total.Read > bytes {
		t.Errorf("%+v, want %d bytes", e.Total, bytes)
	}
	// What opening the shards took is most of the requests of so small a snapshot.
	if opened, _ := counted.Totals(); e.Total.Requests < opened/2 || e.Total.Requests > 3*opened {
		t.Errorf("%d requests estimated, opening took %d", e.Total.Requests, opened)
	}
	e, err = estimate(t.Context(), blobs, plan, false)
	if err != nil || e.Total.Documents != -1 || e.Total.Bytes != bytes {
		t.Errorf("%+v, %v", e.Total, err)
	}
}
