package snapshot

import (
	"fmt"
	"hash/fnv"
	"strconv"
)

// Forms of shard paths (shard_path_type of OpenSearch 2.17 and later; 0 everywhere else).
const (
	pathFixed        = 0 // indices/<id>/<shard>
	pathHashedPrefix = 1 // <hash>/indices/<id>/<shard>
	pathHashedInfix  = 2 // the hash follows the base path; within a repository that is the same place
)

const pathAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// shardPath is the folder of a shard relative to the root of the repository.
func shardPath(pathType int, indexID string, shard int) (string, error) {
	fixed := fmt.Sprintf("indices/%s/%d", indexID, shard)
	switch pathType {
	case pathFixed:
		return fixed, nil
	case pathHashedPrefix, pathHashedInfix:
		return pathHash(strconv.Itoa(shard)+indexID) + "/" + fixed, nil
	}
	return "", fmt.Errorf("shard path type %d is unknown", pathType)
}

// pathHash is FNV-1a-64 of the text, coded as OpenSearch's COMPOSITE_1: of the 64
// binary digits the first 6 choose a character and the next 14 follow as text.
func pathHash(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text)) //nolint:errcheck // a hash takes everything
	v := h.Sum64()
	return fmt.Sprintf("%c%014b", pathAlphabet[v>>58], v>>44&(1<<14-1))
}
