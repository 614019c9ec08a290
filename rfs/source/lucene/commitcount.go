package lucene

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// CountLive returns the number of live documents of a commit, nested ones included, as segments_N and the .si files state it.
// No other file is read, so that it is known of a shard whose documents are damaged. Errors are those of Open.
func CountLive(ctx context.Context, dir Directory) (int64, error) {
	src, info, err := readCommit(ctx, dir)
	if err != nil {
		return 0, err
	}
	var live int64
	for _, e := range info.segments {
		si, err := readSegmentInfo(ctx, dir, e)
		if err != nil {
			return 0, err
		}
		n := int64(si.maxDoc) - int64(e.delCount) - int64(max(e.softDelCount, 0))
		if n < 0 {
			return 0, src.corrupt(-1, "segment %s has %d documents, of which more are deleted", e.name, si.maxDoc)
		}
		if live += n; live > maxDocs {
			return 0, src.corrupt(-1, "%d documents in the segments, an index has at most %d", live, maxDocs)
		}
	}
	return live, nil
}

// readCommit reads segments_N.
func readCommit(ctx context.Context, dir Directory) (*source, *commitInfo, error) {
	name, err := commitFile(dir.List())
	if err != nil {
		return nil, nil, err
	}
	src, err := openSource(dir, name)
	if err != nil {
		return nil, nil, err
	}
	if err := src.bound(maxCommit); err != nil {
		return nil, nil, err
	}
	b, err := src.readAt(ctx, 0, src.size)
	if err != nil {
		return nil, nil, err
	}
	info, err := parseSegments(name, b)
	if err != nil {
		return nil, nil, src.wrap(err)
	}
	if n := len(info.segments); n > maxSegments {
		return nil, nil, fmt.Errorf("%s: %d segments, at most %d are read; merge the index and snapshot it again: %w", name, n, maxSegments, fault.ErrUnsupported)
	}
	return src, info, nil
}

// readSegmentInfo reads the .si file of a segment.
func readSegmentInfo(ctx context.Context, dir Directory, e segmentEntry) (*segmentInfo, error) {
	src, err := openSource(dir, e.name+".si")
	if err != nil {
		return nil, err
	}
	b, err := src.readAll(ctx)
	if err != nil {
		return nil, err
	}
	si, err := parseSegmentInfo(b)
	if err != nil {
		return nil, src.wrap(err)
	}
	return si, nil
}
