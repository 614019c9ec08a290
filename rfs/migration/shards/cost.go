package shards

import (
	"strings"

	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const (
	// openRequests is the number of requests for opening a shard: its manifest and segments_N.
	openRequests = 3
	// perSegmentRequests is the number of requests per segment in addition to its documents.
	perSegmentRequests = 5
)

// Cost returns upper bounds for the bytes that a migration reads from a shard and for its requests to the repository.
func Cost(shard *snapshot.Shard) (bytes, requests int64) {
	requests = openRequests
	for _, f := range shard.Files {
		if strings.HasSuffix(f.Name, ".si") { // it is in the manifest; its segment's other files are not
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

// isRead reports whether any part of a Lucene file is read. Of a compound file only the parts listed within the file itself are read.
func isRead(name string) bool {
	for _, suffix := range []string{".fdt", ".fdx", ".fdm", ".si", ".fnm", ".cfe", ".cfs", ".liv", ".del"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return strings.HasPrefix(name, "segments_")
}
