package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

const (
	// maxGenerations bounds the generations of a translog; a cluster keeps a thousand by default.
	maxGenerations = 1 << 16
	// maxTranslog bounds the generations with operations to apply, in bytes, which are in memory while the shard is read. A cluster flushes
	// a shard when its translog has 512 MiB (index.translog.flush_threshold_size).
	maxTranslog = 640 << 20
	// maxOperations bounds the operations in them. They take some 250 bytes each.
	maxOperations = 1 << 22
	// atATime is the number of blobs that are read concurrently.
	atATime = 16
)

// replay reads the operations that a cluster would replay: the ones of the translog with numbers after the commit's local checkpoint.
type replay struct {
	Shard
	after int64
	uuid  string // of the translog, as the commit states it
	store *place
	count atomic.Int64 // of operations
}

// translogFile is one generation of a translog.
type translogFile struct {
	blob string
	checkpoint
	certain    bool // it has a checkpoint
	operations []operation
}

// read returns the last operation for each id, and the highest number of an operation, or of the commit. If two operations have the same number,
// the one in the later generation counts, as when a primary has replaced another. Operations above the number at which a checkpoint trims
// its generation are void.
func (s *replay) read(ctx context.Context, p Pinned) ([]lucene.Operation, int64, error) {
	all, err := s.find(ctx, p)
	if err != nil {
		return nil, 0, err
	}
	if err := s.fill(ctx, all); err != nil {
		return nil, 0, err
	}
	var operations []operation
	for _, g := range all {
		operations = append(operations, g.operations...)
		g.operations = nil
	}
	slices.SortStableFunc(operations, func(a, b operation) int { return cmp.Compare(a.Seq, b.Seq) })
	operations = slices.CompactFunc(operations, func(a, b operation) bool { return a.Seq == b.Seq })
	last, top, term := map[string]int{}, s.after, int64(0)
	for i, o := range operations {
		if o.Term < term && !o.certain {
			return nil, 0, fmt.Errorf("index %s shard %d: operation %d of term %d follows one of term %d, and its generation has no checkpoint that states whether it is valid; %s: %w",
				s.Index, s.Number, o.Seq, o.Term, term, s.remedy(), fault.ErrUnsupported)
		}
		top, term = o.Seq, o.Term
		if o.ID != nil {
			last[string(o.ID)] = i
		}
	}
	out := make([]lucene.Operation, 0, len(last))
	for i, o := range operations {
		if o.ID != nil && last[string(o.ID)] == i {
			out = append(out, o.Operation)
		}
	}
	return out, top, nil
}

func (s *replay) remedy() string {
	return fmt.Sprintf("refresh the index (POST /%s/_refresh) and take another snapshot, or take a full one (remote_store_index_shallow_copy: false)", s.Index)
}

// find returns the generations of the translog at the pinned point in time, the latest first, and their checkpoints.
func (s *replay) find(ctx context.Context, p Pinned) ([]*translogFile, error) {
	store, name, later, err := s.findPinned(ctx, &shallow{IndexUUID: p.IndexUUID, Repository: p.Translog, PathType: p.PathType, Algorithm: p.Algorithm}, "translog", p.Millis)
	if err != nil {
		return nil, err
	}
	s.store = store
	blob := store.folder("metadata") + "/" + name
	var listed generations
	if _, err := readDecoded(ctx, store, blob, maxMetadata, func(b []byte) (err error) {
		if listed, err = parseTranslog(b); err != nil {
			err = inBlob(blob, err)
		}
		return err
	}); err != nil {
		return nil, err
	}
	if err := s.prove(ctx, name, listed, later); err != nil {
		return nil, err
	}
	var all []*translogFile
	for n := listed.last; n >= listed.first; n-- {
		term := listed.terms[strconv.FormatInt(n, 10)]
		if t, err := strconv.ParseInt(term, 10, 64); err != nil || t < 0 || strconv.FormatInt(t, 10) != term {
			return nil, fault.Corrupt(blob, "", -1, "generation %d of term %q", n, term)
		}
		all = append(all, &translogFile{blob: path.Join(store.folder("data"), term, "translog-"+strconv.FormatInt(n, 10)+".tlog")})
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atATime)
	for _, x := range all {
		g.Go(func() error { return s.describe(gctx, x) })
	}
	return all, g.Wait()
}

// prove returns fault.ErrCorrupt if the last listed generation is not the generation that the name of the metadata states, or if the newest
// metadata of the translog is missing. Nothing proves that other metadata is missing: clusters remove metadata of moments between snapshots.
func (s *replay) prove(ctx context.Context, name string, listed generations, later bool) error {
	folder := s.store.folder("metadata") + "/"
	for part, n := range []int64{listed.term, listed.last} {
		if stated, err := inverted(folder, name, part+1); err != nil {
			return err
		} else if stated != n {
			return fault.Corrupt(folder+name, "", -1, "it lists the generations %d to %d of term %d, but its name states %d", listed.first, listed.last, listed.term, stated)
		}
	}
	if later {
		return nil // later generations are of the time after the snapshot
	}
	data := s.store.folder("data") + "/" + listed.terms[strconv.FormatInt(listed.last, 10)] + "/translog-"
	for blob, err := range s.store.List(ctx, data) {
		if err != nil {
			return err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(blob.Name, data), ".")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return fault.Corrupt(blob.Name, "", -1, "its name has %q where the number of a generation is", number)
		}
		if n > listed.last {
			return fault.Corrupt(folder+name, "", -1, "it is the newest metadata of the translog, but generation %d has been uploaded, too; if the cluster is being written to just now, run the command again", n)
		}
	}
	return nil
}

// describe reads the checkpoint of a generation. Without one, as when a cluster keeps it in the metadata of the object, all of the file
// counts.
func (s *replay) describe(ctx context.Context, g *translogFile) error {
	blob := g.blob[:len(g.blob)-len("tlog")] + "ckp"
	_, err := readDecoded(ctx, s.store, blob, maxMetadata, func(b []byte) (err error) {
		if g.checkpoint, err = parseCheckpoint(b); err != nil {
			err = inBlob(blob, err)
		}
		return err
	})
	if g.certain = err == nil; !missing(err) {
		return err
	}
	g.checkpoint = checkpoint{greatest: s.after + 1, trimmed: trimmedNot}
	if g.length, err = s.store.Stat(ctx, g.blob); missing(err) {
		return fault.Corrupt(g.blob, "", -1, "the generation is missing, but the translog of index %s shard %d consists of it", s.Index, s.Number)
	}
	return err
}

// fill reads the generations that may have operations to apply.
func (s *replay) fill(ctx context.Context, all []*translogFile) error {
	total := int64(0)
	for _, g := range all {
		if g.needed(s.after) {
			total += g.length
		}
	}
	if total > maxTranslog {
		return s.long(total, "bytes", maxTranslog)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atATime)
	for _, x := range all {
		if x.needed(s.after) {
			g.Go(func() error { return s.operationsOf(gctx, x) })
		}
	}
	return g.Wait()
}

// needed reports whether a generation may have valid operations after a sequence number.
func (g *translogFile) needed(after int64) bool {
	greatest := g.greatest
	if g.trimmed != trimmedNot {
		greatest = min(greatest, g.trimmed)
	}
	return greatest > after
}

func (s *replay) long(n int64, of string, most int64) error {
	return fmt.Errorf("index %s shard %d: the translog has %d %s that were not searchable when the snapshot was taken, at most %d are read; %s: %w",
		s.Index, s.Number, n, of, most, s.remedy(), fault.ErrUnsupported)
}

// operationsOf reads the valid operations of a generation after the local checkpoint.
func (s *replay) operationsOf(ctx context.Context, g *translogFile) error {
	_, err := readDecoded(ctx, s.store, g.blob, int(g.length), func(b []byte) error {
		if int64(len(b)) < g.length {
			return fault.Corrupt(g.blob, "", int64(len(b)), "the generation has %d bytes, its checkpoint states %d", len(b), g.length)
		}
		g.operations = nil
		n, err := parseGeneration(b, s.uuid, func(o operation) error {
			if o.certain = g.certain; o.Seq <= s.after || !g.valid(o.Seq) {
				return nil
			}
			if n := s.count.Add(1); n > maxOperations {
				return s.long(n, "operations", maxOperations)
			}
			g.operations = append(g.operations, o)
			return nil
		})
		switch {
		case err != nil:
			return inBlob(g.blob, err)
		case g.certain && n != g.checkpoint.operations:
			return fault.Corrupt(g.blob, "", -1, "the generation has %d operations, its checkpoint states %d", n, g.checkpoint.operations)
		}
		return nil
	})
	if missing(err) {
		return fault.Corrupt(g.blob, "", -1, "the generation is missing, but the translog of index %s shard %d consists of it", s.Index, s.Number)
	}
	return err
}
