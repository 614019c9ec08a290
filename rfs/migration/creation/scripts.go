package creation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Up to Elasticsearch 2 stored scripts are documents of an index of this name; their type is the language.
const scriptIndex = ".scripts"

// mostScripts bounds the scripts of that index in memory.
const mostScripts = 10_000

// addIndexedScripts reads the scripts that an old cluster kept in an index, as <language>#<name>.
func addIndexedScripts(ctx context.Context, snap *snapshot.Snapshot, all *metadata.Globals) error {
	if !slices.ContainsFunc(snap.Indices, func(x snapshot.IndexRef) bool { return x.Name == scriptIndex }) {
		return nil
	}
	x, err := snap.Index(ctx, scriptIndex)
	if err != nil {
		return fmt.Errorf("stored scripts: %w", err)
	}
	found := all.Objects[metadata.Script]
	if found == nil {
		found = map[string]json.RawMessage{}
		all.Objects[metadata.Script] = found
	}
	for shard := range x.NumShards {
		if err := readScripts(ctx, snap.Repository(), x.Locator, shard, found); err != nil {
			return fmt.Errorf("stored scripts: %w", err)
		}
	}
	// They are listed one by one now.
	all.Indices = slices.DeleteFunc(all.Indices, func(name string) bool { return name == scriptIndex })
	return nil
}

func readScripts(ctx context.Context, repo snapshot.Repository, loc snapshot.Locator, shard int, found map[string]json.RawMessage) error {
	s, err := snapshot.OpenShard(ctx, repo, loc, shard)
	if err != nil {
		return err
	}
	commit, err := lucene.Open(ctx, s.Directory(), lucene.Options{})
	if err != nil {
		return s.Blame(err)
	}
	r := commit.Reader(lucene.ReadOptions{To: commit.MaxOrdinal})
	defer r.Close()
	decoder := doc.NewDecoder(loc.IndexName, shard)
	decoder.SetType(loc.Type)
	for {
		rec, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.Blame(err)
		}
		d, failure := decoder.Decode(rec)
		if failure != nil {
			return fmt.Errorf("document %s: %s: %w", failure.ID, failure.Detail, fault.ErrCorrupt)
		}
		if found[string(d.Type)+"#"+string(d.ID)] = slices.Clone(d.Source); len(found) > mostScripts {
			return fmt.Errorf("more than %d: %w", mostScripts, fault.ErrUnsupported)
		}
	}
}
