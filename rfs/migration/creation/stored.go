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

// scriptIndex is the index of stored scripts up to Elasticsearch 2. Each is a document whose type is the language.
const scriptIndex = ".scripts"

// mostStored is the maximum number of documents read from such an index.
const mostStored = 10_000

// addStored adds the requested objects that the source stores in indices of its own: scripts as <language>#<name>, and policies.
func (t *Globals) addStored(ctx context.Context, snap *snapshot.Snapshot, all *metadata.Globals) error {
	if t.Wanted.Scripts {
		found := all.Objects[metadata.Script]
		if found == nil {
			found = map[string]json.RawMessage{}
			all.Objects[metadata.Script] = found
		}
		err := readStored(ctx, snap, scriptIndex, all, func(d *doc.Document) error {
			found[string(d.Type)+"#"+string(d.ID)] = slices.Clone(d.Source)
			return nil
		})
		if err != nil {
			return fmt.Errorf("stored scripts: %w", err)
		}
	}
	if t.Wanted.Policies {
		err := readStored(ctx, snap, metadata.PolicyIndex, all, func(d *doc.Document) error { return all.AddStored(string(d.ID), d.Source) })
		if err != nil {
			return fmt.Errorf("stored policies: %w", err)
		}
	}
	return nil
}

// readStored calls each with the documents of an index, if the snapshot has it, and removes the index from all.Indices.
func readStored(ctx context.Context, snap *snapshot.Snapshot, index string, all *metadata.Globals, each func(*doc.Document) error) error {
	if !slices.ContainsFunc(snap.Indices, func(x snapshot.IndexRef) bool { return x.Name == index }) {
		return nil
	}
	x, err := snap.Index(ctx, index)
	if err != nil {
		return err
	}
	read := 0
	err = ReadIndex(ctx, snap, x, func(d *doc.Document) error {
		if read++; read > mostStored {
			return fmt.Errorf("more than %d: %w", mostStored, fault.ErrUnsupported)
		}
		return each(d)
	})
	if err != nil {
		return err
	}
	all.Indices = slices.DeleteFunc(all.Indices, func(name string) bool { return name == index })
	return nil
}

// ReadIndex calls each with the documents of an index. A document is only valid during the call. Errors: fault.ErrCorrupt, errors of
// reading the repository, and the error of each.
func ReadIndex(ctx context.Context, snap *snapshot.Snapshot, x *snapshot.Index, each func(*doc.Document) error) error {
	for shard := range x.NumShards {
		if err := readShard(ctx, snap.Repository(), x.Locator, shard, each); err != nil {
			return err
		}
	}
	return nil
}

func readShard(ctx context.Context, repo snapshot.Repository, loc snapshot.Locator, shard int, each func(*doc.Document) error) error {
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
		if err := each(d); err != nil {
			return err
		}
	}
}
