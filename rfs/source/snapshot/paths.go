package snapshot

import (
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Forms of shard paths (shard_path_type of OpenSearch 2.17 and later; 0 everywhere else).
const (
	pathFixed        = 0 // indices/<id>/<shard>
	pathHashedPrefix = 1 // <hash>/indices/<id>/<shard>
	pathHashedInfix  = 2 // the hash follows the base path; the same as above within a repository
)

// errPathType: only the recorded paths locate such shards.
var errPathType = fmt.Errorf("shard path type is unknown: %w", fault.ErrUnsupported)

const pathAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// shardPath returns the folder of a shard relative to the root of the repository.
func shardPath(pathType int, indexID string, shard int) (string, error) {
	fixed := fmt.Sprintf("indices/%s/%d", indexID, shard)
	switch pathType {
	case pathFixed:
		return fixed, nil
	case pathHashedPrefix, pathHashedInfix:
		return pathHash(strconv.Itoa(shard)+indexID) + "/" + fixed, nil
	}
	return "", fmt.Errorf("%s: %w: %d (from the catalog)", fixed, errPathType, pathType)
}

// pathHash returns the FNV-1a-64 hash of the text, encoded as OpenSearch's COMPOSITE_1: the first 6 of the 64 binary digits select a
// character, and the next 14 follow as text.
func pathHash(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text)) //nolint:errcheck // a hash takes everything
	v := h.Sum64()
	return fmt.Sprintf("%c%014b", pathAlphabet[v>>58], v>>44&(1<<14-1))
}

// recordedPath returns the path of a shard that OpenSearch recorded: blobs snapshot_shard_paths/snapshot_path_<index
// id>.<index>.<shards>.<type>.<algorithm> hold JSON with the paths of all shards relative to the root of the store, base path included. It
// returns "" if no such blob names the shard. Errors: fault.ErrCorrupt, and the errors of listing.
func recordedPath(ctx context.Context, r Repository, loc Locator, number int) (string, error) {
	for blob, err := range r.List(ctx, "snapshot_shard_paths/snapshot_path_"+loc.IndexID+".") {
		if err != nil {
			return "", fmt.Errorf("find the path of index %s shard %d: %w", loc.IndexName, number, err)
		}
		var doc struct {
			ID    string   `json:"indexId"`
			Paths []string `json:"paths"`
		}
		b, done, err := readJSON(ctx, r, blob.Name, "")
		if err == nil {
			err = unmarshalList(blob.Name, b, &doc)
		}
		done()
		if err != nil {
			return "", err
		}
		if doc.ID != loc.IndexID || number >= len(doc.Paths) {
			continue // of fewer shards than the index has
		}
		path := strings.Trim(doc.Paths[number], "/")
		if !fs.ValidPath(path) {
			return "", fault.Corrupt(blob.Name, "", -1, "path %q of shard %d", doc.Paths[number], number)
		}
		return path, nil
	}
	return "", nil
}
