package lucene

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// zstdReference decodes a frame with the library's own support for dictionaries.
func zstdReference(t testing.TB, src, dict []byte, n int) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnit), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderDictRaw(0, dict))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	return d.DecodeAll(src, make([]byte, 0, n))
}

// TestZstdPrefix decodes frames with a dictionary as the library does, and refuses what a header states wrongly.
func TestZstdPrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	text := logLine(r, 1)
	for len(text) < 300<<10 {
		text = append(text, logLine(r, len(text))...)
	}
	plain := func(p, dict []byte) []byte {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(0, dict), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(p, nil)
	}
	stream := func(p, dict []byte) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithEncoderDictRaw(0, dict), zstd.WithWindowSize(1<<18))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(p)
		_ = w.Close()
		return b.Bytes()
	}
	summed := func(p, dict []byte) []byte { return zstdFramer(t, dict)(p) }
	change := func(frame func(p, dict []byte) []byte, at int, to byte) func(p, dict []byte) []byte {
		return func(p, dict []byte) []byte {
			b := frame(p, dict)
			if at < 0 {
				at += len(b)
			}
			b[at] ^= to
			return b
		}
	}
	for _, c := range []struct {
		name    string
		frame   func(p, dict []byte) []byte
		dict, n int
		broken  bool
	}{
		{"dictionary of one byte", plain, 1, 700, false},
		{"usual block", plain, 8 << 10, 48 << 10, false},
		{"several blocks", summed, 8 << 10, 290 << 10, false},
		{"dictionary longer than a block of the frame", plain, 200 << 10, 100, false},
		{"size not stated", stream, 8 << 10, 200 << 10, false},
		{"one byte", plain, 4000, 1, false},
		{"no dictionary", summed, 0, 5000, false},
		{"wrong magic", change(plain, 0, 1), 100, 5000, true},
		{"wrong checksum", change(summed, -1, 1), 100, 5000, true},
		{"reserved bit", change(plain, 4, 8), 100, 5000, true},
		{"another dictionary wanted", change(plain, 4, 1), 100, 5000, true},
		{"another size stated", change(plain, 5, 1), 100, 5000, true},
		{"bytes after the frame", func(p, dict []byte) []byte { return append(plain(p, dict), 0) }, 100, 5000, true},
		{"frame after the frame", func(p, dict []byte) []byte { return append(plain(p, dict), plain(nil, nil)...) }, 100, 5000, true},
		{"frame cut off", func(p, dict []byte) []byte { b := plain(p, dict); return b[:len(b)-1] }, 100, 5000, true},
		{"nothing", func([]byte, []byte) []byte { return nil }, 100, 5000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dict, want := text[:c.dict], text[c.dict:c.dict+c.n]
			src := c.frame(want, dict)
			var z zstdPrefix
			z.use([]byte("the dictionary of another unit"))
			z.use(dict)
			got := make([]byte, c.dict+c.n)
			err := z.decode(got, src)
			got = got[c.dict:]
			switch {
			case c.broken && !errors.Is(err, fault.ErrCorrupt):
				t.Fatalf("error %v of a damaged frame", err)
			case !c.broken && (err != nil || !bytes.Equal(got, want)):
				t.Fatalf("%v, content equal: %t", err, bytes.Equal(got, want))
			}
		})
	}
}

// FuzzZstdPrefix compares with the library: what one of them decodes, the other does too.
func FuzzZstdPrefix(f *testing.F) {
	text := bytes.Repeat([]byte("some text that repeats itself; with a number 123456; "), 100)
	for _, n := range []int{1, 100, 4000} {
		f.Add(zstdFramer(f, text[:300])(text[300:300+n]), text[:300], n)
	}
	f.Fuzz(func(t *testing.T, src, dict []byte, n int) {
		if n < 1 || n > 1<<20 || len(dict) == 0 {
			t.Skip("the caller has bounded the length")
		}
		defer fuzzing.Bounded(t, len(src)+len(dict)+n)()
		var z zstdPrefix
		z.use(dict)
		got := make([]byte, len(dict)+n)
		err := z.decode(got, src)
		got = got[len(dict):]
		if err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("error without a category: %v", err)
		}
		want, wantErr := zstdReference(t, src, dict, n)
		if _, bad := parseZstdFrame(src); bad != nil {
			return // several frames, or one that can be skipped: no codec writes them
		}
		switch ours, theirs := err == nil, wantErr == nil && len(want) == n; {
		case ours && theirs && !bytes.Equal(got, want):
			t.Fatal("not what the library decodes")
		case !ours && theirs:
			t.Fatalf("the library decodes it: %v", err)
		case ours && !theirs && src[4]&0x20 != 0:
			// Only the window of a frame that is not a single segment is not applied.
			t.Fatalf("the library does not decode it: %v", wantErr)
		}
	})
}
