package importer

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/budget"
)

const (
	// commonBack is the longest distance that a zstd frame may look back, in bytes, in the memory that each slot has: levels up to 19.
	commonBack = 8 << 20
	// MaxBack is the longest distance for any zstd frame, in bytes: level 22 and --long. All windows of a process share it.
	MaxBack = 128 << 20
)

// room bounds the memory of all windows of a process together. Frames are taken when a file is opened, by a window that holds no
// line: one with a line never waits for one without, so that no two wait for each other.
type room struct {
	lines  *budget.Budget // lines beyond keepBuffer
	frames *budget.Budget // what zstd frames look back beyond commonBack
}

// errFurther marks a frame that looks back further than its file was opened for.
var errFurther = errors.New("a later zstd frame looks back further")

// unzstd decompresses r. Frames look back at most back bytes, with 0 as far as the first one announces. Beyond commonBack
// they are taken from memory until the window is closed.
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
		r.close() // waiting may be long
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

// announced returns how far the first frame looks back, between commonBack and MaxBack.
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

// emptyFrame returns a frame without content that looks back at least as far, and how far: before all others it makes the
// decoder's buffer as large as it may become, so that frames which announce ever more do not leave one each.
func emptyFrame(back int64) (frame []byte, far int64) {
	descriptor := 0
	for far < back {
		descriptor++
		base := int64(1) << (10 + descriptor>>3)
		far = base + base/8*int64(descriptor&7)
	}
	return []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(descriptor), 1, 0, 0}, far
}
