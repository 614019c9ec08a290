package shards

import (
	"strings"

	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const (
	// openRequests is the number of requests to open a shard: its manifest and segments_N.
	openRequests = 3
	// perSegmentRequests is the number of requests of a segment besides its documents.
	perSegmentRequests = 5
)

// Cost returns how many bytes of a shard a migration reads at most, and with how many requests to the repository.
func Cost(shard *snapshot.Shard) (bytes, requests int64) {
	requests = openRequests
	for _, f := range shard.Files {
		if strings.HasSuffix(f.Name, ".si") { // in the manifest, but not what belongs to it
			requests += perSegmentRequests
		}
		if f.Virtual() || !isRead(f.Name) {
			continue
		}
		bytes += f.Length
		switch {
		case strings.HasSuffix(f.Name, ".fdt"), strings.HasSuffix(f.Name, ".cfs"):
			requests += (f.Length + repo.DefaultChunk - 1) / repo.DefaultChunk
		}
	}
	return bytes, requests
}

// isRead reports whether anything of a Lucene file is read. Of a compound file it is a part that only the
// file itself states.
func isRead(name string) bool {
	for _, suffix := range []string{".fdt", ".fdx", ".fdm", ".si", ".fnm", ".cfe", ".cfs", ".liv", ".del"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return strings.HasPrefix(name, "segments_")
}
