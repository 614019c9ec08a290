package shards

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

func TestReadCostCountsRequestsAsTheRepositoryMakesThem(t *testing.T) {
	shard := &snapshot.Shard{Files: []snapshot.File{
		{Name: "_0.si", Blob: "v__a", Length: 400},
		{Name: "_0.fdt", Blob: "__b", Length: 10 * repo.DefaultChunk},
		{Name: "_0.dvd", Blob: "__c", Length: 1 << 30}, // not read
		{Name: "_1.cfs", Blob: "__d", Length: 1},
	}}
	bytes, requests := Cost(shard)
	if bytes != 10*repo.DefaultChunk+1 || requests != openRequests+perSegmentRequests+10+1 {
		t.Errorf("%d bytes, %d requests", bytes, requests)
	}
}
