package lucene

import "context"

// pageSize is how many bytes of a file that is not held are asked for at once.
const pageSize = 256 << 10

// pages shows a file in pieces, which it reads as places in it are asked for. It belongs to one goroutine.
type pages struct {
	src   *source
	start int64 // of page
	page  []byte
}

// at returns n bytes from off on, valid until the next call.
func (p *pages) at(ctx context.Context, off, n int64) ([]byte, error) {
	if off < p.start || n < 0 || off+n > p.start+int64(len(p.page)) {
		p.page = nil
		b, err := p.src.readAt(ctx, off, max(n, min(pageSize, p.src.size-off)))
		if err != nil {
			return nil, err
		}
		p.start, p.page = off, b
	}
	return p.page[off-p.start : off-p.start+n], nil
}
