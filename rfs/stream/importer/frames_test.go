package importer

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Descriptors of frames that look back 8, 16, 128 and 144 MiB.
const (
	back8   = 13 << 3
	back16  = 14 << 3
	back128 = 17 << 3
	back144 = 17<<3 | 1
)

// frame returns a zstd frame of raw blocks with this window descriptor.
func frame(descriptor byte, text string) string {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, descriptor}
	for last := false; !last; {
		n := min(len(text), 100<<10)
		last = n == len(text)
		header := uint32(n) << 3
		if last {
			header |= 1
		}
		b = append(binary.LittleEndian.AppendUint32(b, header)[:len(b)+3], text[:n]...)
		text = text[n:]
	}
	return string(b)
}

// TestWideFramesTakeTurns: what frames look back beyond 8 MiB is taken before there is a decoder, and comes back.
func TestWideFramesTakeTurns(t *testing.T) {
	text := linesFor[0] + "\n" + linesFor[2] + "\n"
	open := func(ctx context.Context, frames *budget.Budget, file string, back int64) error {
		w, err := openWindow(ctx, blob(file), Task{File: "f", Size: int64(len(file)), To: int64(len(file)), Compression: zstandard}, 0, maxLine, room{frames: frames}, back)
		if err != nil {
			return err
		}
		defer w.close()
		for n := 0; ; n++ {
			if _, err := w.next(); err != nil {
				if errors.Is(err, io.EOF) && n == 0 {
					t.Error("it holds no document")
				}
				return err
			}
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name, file string
		back       int64
		free       int64 // of 128 MiB
		want       error
	}{
		{"8 MiB need nothing", frame(back8, text), 0, 0, io.EOF},
		{"16 MiB that are there", frame(back16, text), 0, 16 << 20, io.EOF},
		{"16 MiB that are not", frame(back16, text), 0, 16<<20 - 1, context.Canceled},
		{"128 MiB that are not", frame(back128, text), 0, MaxBack - 1, context.Canceled},
		{"a later frame, opened for its first", frame(back8, text) + frame(back16, text), 0, 0, errFurther},
		{"a later frame, opened for all", frame(back8, text) + frame(back16, text), MaxBack, MaxBack, io.EOF},
		{"behind a frame to skip", "\x50\x2a\x4d\x18\x01\x00\x00\x00x" + frame(back16, text), 0, 0, errFurther},
		{"more than is taken at all", frame(back144, text), 0, MaxBack, fault.ErrCorrupt},
		{"more than is taken at all, later", frame(back8, text) + frame(back144, text), MaxBack, MaxBack, fault.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			frames := budget.New(MaxBack, 0)
			others, _ := frames.Try(MaxBack - c.free)
			if err := open(gone, frames, c.file, c.back); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			others.Release()
			if _, ok := frames.Try(MaxBack); !ok {
				t.Error("not all comes back")
			}
		})
	}
}

// TestTheDecoderIsAsLargeAsWasTaken: frames that announce ever more leave one buffer, not one each.
func TestTheDecoderIsAsLargeAsWasTaken(t *testing.T) {
	var file strings.Builder
	for d := byte(back8); d <= back128; d++ {
		file.WriteString(frame(d, "{}\n"))
	}
	size := int64(file.Len())
	w := &window{}
	defer w.close()
	z, narrow, err := w.unzstd(&ranges{ctx: t.Context(), src: blob(file.String()), name: "f", size: size, end: size}, budget.New(MaxBack, 0), MaxBack)
	if err != nil || narrow {
		t.Fatal(narrow, err)
	}
	defer z.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if n, err := io.Copy(io.Discard, z); err != nil || n != 3*(back128-back8+1) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > MaxBack+2<<20 {
		t.Errorf("the decoder took %d MiB", took>>20)
	}
}

func TestEmptyFrames(t *testing.T) {
	for _, back := range []int64{commonBack + 1, 16 << 20, 16<<20 + 1, 100_000_000, MaxBack} {
		file, far := emptyFrame(back)
		if far < back || far > MaxBack || far > back+back/8 {
			t.Errorf("%d bytes look back %d", back, far)
		}
		if got := announced(file); got != far {
			t.Errorf("the frame announces %d, not %d", got, far)
		}
	}
}
