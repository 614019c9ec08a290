package lucene

import "context"

// mostSelected is the number of bytes of .fdt from which on one request for selected documents is not extended.
const mostSelected = 8 << 20

// selects reports whether a document of the chunk in the range is wanted.
func (r *Reader) selects(at place) bool {
	return r.only(r.cur.Base+int64(max(at.first, r.start)), r.cur.Base+int64(min(at.end, r.clip(r.to))))
}

// selected returns the raw bytes of the selected documents of a chunk.
func (r *Reader) selected(c *chunk) []span {
	spans := []span{}
	at := int64(0)
	for i, n := range c.lengths {
		end := at + int64(n)
		if ordinal := r.cur.Base + int64(c.first) + int64(i); r.only(ordinal, ordinal+1) {
			if last := len(spans) - 1; last >= 0 && spans[last].to == at {
				spans[last].to = end
			} else {
				spans = append(spans, span{at, end})
			}
		}
		at = end
	}
	return spans
}

// enterSelected prepares the window for the segment; nothing of .fdt is fetched yet.
func (r *Reader) enterSelected() {
	fdt := r.stored.fdt
	r.win.open(fdt, 0, fdt.size, fdt.size, r.buf)
	r.win.end = 0
}

// advanceSelected loads the next chunk that has a wanted live document, or leaves the segment. It returns io.EOF at the end of the range.
func (r *Reader) advanceSelected(ctx context.Context) error {
	x := &r.stored.index
	for ; r.next < x.chunks(); r.next++ {
		at, err := x.place(ctx, r.next)
		if err != nil {
			return err
		}
		if r.cur.Base+int64(at.first) >= r.to {
			return r.leaveRange()
		}
		if !r.selects(at) {
			continue
		}
		r.at = at
		if live, err := r.advanceMarks(ctx, r.next); err != nil {
			return err
		} else if !live {
			continue
		}
		if at.stop > r.win.end {
			if err := r.request(ctx, at); err != nil {
				return err
			}
		}
		if err := r.win.skip(ctx, at.start); err != nil {
			return err
		}
		if err := r.load(ctx, &r.win, r.next, at); err != nil {
			return err
		}
		r.next++
		return ctx.Err()
	}
	return r.leaveSegment()
}

// request starts to read a chunk and the wanted chunks that follow it without a gap, up to about mostSelected bytes.
func (r *Reader) request(ctx context.Context, at place) error {
	end := at.stop
	for k := r.next + 1; k < r.stored.index.chunks() && end-at.start < mostSelected; k++ {
		following, err := r.stored.index.place(ctx, k)
		if err != nil {
			return err
		}
		if !r.selects(following) {
			break
		}
		end = following.stop
	}
	buf := r.win.buf
	if err := r.win.close(); err != nil {
		return err
	}
	fdt := r.stored.fdt
	r.win.open(fdt, at.start, fdt.size, fdt.size, buf)
	r.win.end = end
	return nil
}
