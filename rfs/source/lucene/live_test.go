package lucene

import (
	"context"
	"testing"
)

// readDocs reads live documents n words at a time.
func readDocs(ctx context.Context, l *liveDocs, err error, maxDoc int32, n int) (bitset, error) {
	all := make(bitset, (int64(maxDoc)+63)/64)
	for at := 0; at < len(all) && err == nil; at += n {
		err = l.fill(ctx, int32(at)<<6, all[at:min(at+n, len(all))])
	}
	return all, err
}

func parseLive(t *testing.T, b []byte, id string, gen int64, maxDoc int32) (bitset, error) {
	t.Helper()
	l, err := openLiv(t.Context(), &source{name: "_0_1.liv", file: memFile{"_0_1.liv", b}, size: int64(len(b)), own: true}, id, gen, maxDoc)
	return readDocs(t.Context(), l, err, maxDoc, 3)
}

func parseDel(t *testing.T, b []byte, maxDoc int32) (bitset, error) {
	t.Helper()
	l, err := openDel(t.Context(), &source{name: "_0_1.del", file: memFile{"_0_1.del", b}, size: int64(len(b)), own: true}, maxDoc)
	return readDocs(t.Context(), l, err, maxDoc, 3)
}
