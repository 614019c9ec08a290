package importer

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// lookBack is the number of bytes before a window that syncPoint searches: four action lines of the maximum length.
const lookBack = 4 * doc.MaxAction

// Opener is the part of a repository that a window needs (rfs/source/repo).
type Opener interface {
	// Open streams n bytes from off, or to the end if n < 0.
	Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
}

// syncPoint returns the offset at which to start reading, so that every document that starts at or after from is
// parsed as in a reading of the whole file; with skip, the rest of the line at that offset must be skipped.
// A line break is not enough: the next line may be an action or a source, and a source may
// look like an action. But a line that is not an action line is always followed by an action. In files of exports,
// the 256 KiB before from contain such a line; otherwise the file is read from its start.
func syncPoint(ctx context.Context, src Opener, name string, from int64) (at int64, skip bool, err error) {
	if from == 0 {
		return 0, false, nil
	}
	start := max(from-lookBack, 0)
	block, err := readBlock(ctx, src, name, start, from-start)
	if err != nil {
		return 0, false, err
	}
	at, skip = findSync(block, start)
	return at, skip, nil
}

// findSync is syncPoint on the block from start in the file up to the window.
func findSync(block []byte, start int64) (at int64, skip bool) {
	end := bytes.LastIndexByte(block, '\n') + 1 // of the last whole line
	if len(block)-end > doc.MaxAction+1 {       // a carriage return does not belong to it
		return start + int64(len(block)), true // within a line that is too long for an action
	}
	for end > 0 {
		begin := bytes.LastIndexByte(block[:end-1], '\n') + 1
		if begin == 0 && start > 0 { // the line may start before the block
			if end-1 > doc.MaxAction+1 {
				return start + int64(end), false
			}
			return 0, false
		}
		var a doc.Action
		if !a.ParseIndexing(withoutReturn(block[begin : end-1])) {
			return start + int64(end), false
		}
		end = begin
	}
	return 0, false
}

func readBlock(ctx context.Context, src Opener, name string, off, n int64) ([]byte, error) {
	rc, err := src.Open(ctx, name, off, n)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer rc.Close()
	b := make([]byte, n)
	if _, err := io.ReadFull(rc, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}
