package importer

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/budget"
)

const (
	// commonBack is the largest window of a zstd frame, in bytes, within the memory of a slot: levels up to 19.
	commonBack = 8 << 20
	// MaxBack is the largest window of any zstd frame, in bytes: level 22 and --long. All files of a process share it.
	MaxBack = 128 << 20
)

// room limits the memory of all open parts of a process. Memory for frames is acquired when a file is opened, while no line is
// held. Since a holder of a line never waits for memory for frames, this cannot deadlock.
type room struct {
	lines  *budget.Budget // lines beyond keepBuffer
	frames *budget.Budget // windows of zstd frames beyond commonBack
}

// errFurther means that a frame has a larger window than its file was opened for.
var errFurther = errors.New("a later zstd frame looks back further")

// unzstd decompresses r. The windows of frames have at most back bytes, with 0 the size in the header of the first frame. Beyond
// commonBack it acquires them from memory until w is closed.
func (w *window) unzstd(r *ranges, memory *budget.Budget, back int64) (z *zstd.Decoder, narrow bool, err error) {
	head := make([]byte, zstd.HeaderMaxSize)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, false, err
	}
	if back == 0 {
		back = announced(head[:n])
	}
	in := io.MultiReader(bytes.NewReader(head[:n]), r)
	if back > commonBack {
		r.close() // the wait may be long
		share, err := memory.Take(r.ctx, back)
		if err != nil {
			r.err = err
			return nil, false, err
		}
		w.closers = append(w.closers, share.Release)
		var empty []byte
		empty, back = emptyFrame(back)
		in = io.MultiReader(bytes.NewReader(empty), in)
	}
	z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(uint64(back)), zstd.WithDecoderLowmem(true))
	return z, back < MaxBack, err
}

// announced returns the window of the first frame in bytes, from commonBack to MaxBack.
func announced(head []byte) int64 {
	var h zstd.Header
	if h.Decode(head) != nil || h.Skippable {
		return commonBack
	}
	back := h.WindowSize
	if h.SingleSegment {
		back = h.FrameContentSize
	}
	return int64(min(max(back, commonBack), MaxBack))
}

// emptyFrame returns a frame without content whose window is at least back bytes, and the size of its window. As the first frame, it
// makes the decoder allocate its largest buffer, so that frames with growing windows do not allocate one each.
func emptyFrame(back int64) (frame []byte, far int64) {
	descriptor := 0
	for far < back {
		descriptor++
		base := int64(1) << (10 + descriptor>>3)
		far = base + base/8*int64(descriptor&7)
	}
	return []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(descriptor), 1, 0, 0}, far
}
