package snapshot

import (
	"context"
	"fmt"
	"iter"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Blob returns the name of the catalog's blob.
func (c *Catalog) Blob() string { return c.blob }

// Blob returns the name of the snapshot's blob.
func (s *Snapshot) Blob() string { return s.blob }

// GlobalBlob returns the name of the blob of the cluster's metadata.
func (s *Snapshot) GlobalBlob() string {
	name, _ := s.globalBlob()
	return name
}

// Blobs returns each blob that holds files of the shard, with the length in bytes that the manifest states.
func (s *Shard) Blobs() iter.Seq2[File, repo.Blob] {
	return func(yield func(File, repo.Blob) bool) {
		for _, f := range s.Files {
			part := file{File: f, shard: s}
			for n := range f.Parts() {
				_, _, length := part.part(n * max(f.PartSize, 0))
				if !yield(f, repo.Blob{Name: part.partName(n), Size: length}) {
					return
				}
			}
		}
	}
}

// CheckLength compares the length of a blob of Blobs with the repository. Errors: fault.ErrCorrupt with the blob.
func (s *Shard) CheckLength(ctx context.Context, blob repo.Blob) error {
	size, err := s.repo.Stat(ctx, blob.Name)
	switch {
	case err != nil:
		return referenced(blob.Name, s.Manifest, err)
	case size != blob.Size:
		return fault.Corrupt(blob.Name, "", min(size, blob.Size), "the blob has %d bytes, %s states %d", size, s.Manifest, blob.Size)
	}
	return nil
}

// ShardFolder returns the folder of one shard. Errors: fault.ErrUnsupported.
func (l Locator) ShardFolder(number int) (string, error) {
	path, err := shardPath(l.PathType, l.IndexID, number)
	if err != nil {
		return "", fmt.Errorf("index %s shard %d: %w", l.IndexName, number, err)
	}
	return path, nil
}

// ShardList returns the blob that lists the files of all snapshots of a shard; "" if the catalog does not state which one is valid (before
// Elasticsearch 7.6).
func (l Locator) ShardList(number int) string {
	if number >= len(l.Generations) || l.Generations[number] == "" {
		return ""
	}
	path, err := l.ShardFolder(number)
	if err != nil {
		return ""
	}
	return path + "/index-" + l.Generations[number]
}

// CheckShardList reads the list of all snapshots of a shard (see ShardList) and checks that it is complete. Errors: fault.ErrCorrupt with
// the blob.
func CheckShardList(ctx context.Context, r Repository, list string) error {
	b, done, err := readJSON(ctx, r, list, codecSnapshots)
	defer done()
	if err != nil {
		return referenced(list, "the catalog", err)
	}
	var doc struct {
		Files     []fileEntry `json:"files"`
		Snapshots map[string]struct {
			Files []string `json:"files"`
		} `json:"snapshots"`
	}
	if err := unmarshal(list, b, &doc); err != nil {
		return err
	}
	known := make(map[string]bool, len(doc.Files))
	for _, f := range doc.Files {
		known[f.Name] = true
	}
	for name, s := range doc.Snapshots {
		for _, f := range s.Files {
			if !known[f] {
				return fault.Corrupt(list, "", -1, "file %s of snapshot %s is not described", f, name)
			}
		}
	}
	return nil
}
