package inflate_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	kflate "github.com/klauspost/compress/flate"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/inflate"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// reference decodes with the standard library; it reports the content, and whether the stream has
// exactly n bytes.
func reference(src, dict []byte, n int) ([]byte, bool) {
	r := flate.NewReaderDict(bytes.NewReader(src), dict)
	out := make([]byte, n)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, false
	}
	if k, err := r.Read(make([]byte, 1)); k != 0 || err != io.EOF {
		return nil, false
	}
	return out, true
}

func deflated(t testing.TB, p, dict []byte, level int) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriterDict(&b, level, dict)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(p)
	_ = w.Close()
	return b.Bytes()
}

// compare decodes src both ways.
func compare(t *testing.T, d *inflate.Decoder, src, dict []byte, n int) {
	t.Helper()
	buf := append(append(make([]byte, 0, len(dict)+n+1), dict...), make([]byte, n+1)...)
	buf[len(dict)+n] = 0xA5
	err := d.Decode(buf[:len(dict)+n], len(dict), src)
	want, ok := reference(src, dict, n)
	switch {
	case err != nil && !errors.Is(err, fault.ErrCorrupt):
		t.Fatalf("error without a category: %v", err)
	case err != nil && ok:
		t.Fatalf("the standard library decodes it: %v", err)
	case err == nil && !ok:
		t.Fatal("the standard library does not decode it")
	case err == nil && !bytes.Equal(buf[len(dict):len(dict)+n], want):
		t.Fatal("not what the standard library decodes")
	case !bytes.Equal(buf[:len(dict)], dict):
		t.Fatal("the dictionary was changed")
	case buf[len(dict)+n] != 0xA5:
		t.Fatal("a byte behind the output was changed")
	}
}

// contents are raw bytes of every kind that encoders treat differently.
func contents() map[string][]byte {
	r := rand.New(rand.NewPCG(5, 6))
	random := make([]byte, 70000)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	var text, skewed, runs, near []byte
	for len(text) < 100000 {
		text = fmt.Appendf(text, `{"user":%d,"path":"/api/v1/items/%x","status":%d,"took":%.3f} `, r.IntN(1000), r.IntN(1<<20), 200+r.IntN(300), r.Float64())
	}
	for len(skewed) < 100000 { // long codes: symbols of very different frequency
		skewed = append(skewed, byte(200-7*min(28, int(r.ExpFloat64()*5))))
	}
	for len(runs) < 100000 {
		runs = append(runs, bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(700))...)
	}
	for len(near) < 100000 { // matches of every distance below 40
		at := max(0, len(near)-1-r.IntN(40))
		for range 3 + r.IntN(60) {
			if at >= len(near) {
				near = append(near, byte(r.Uint32()))
			}
			near = append(near, near[at])
			at++
		}
	}
	return map[string][]byte{"random": random, "text": text, "skewed": skewed, "runs": runs, "near": near, "short": []byte("a"), "empty": {}}
}

// TestDecode compares with the standard library on streams of every level, with and without a dictionary.
func TestDecoder_EveryContentAndLevel(t *testing.T) {
	var d inflate.Decoder
	for name, p := range contents() {
		t.Run(name, func(t *testing.T) {
			for _, level := range []int{flate.HuffmanOnly, 0, 1, 6, 9} {
				for _, dict := range []int{0, 1, 300, 8 << 10, 40 << 10} {
					for _, n := range []int{len(p), 300, 17, 1} {
						dict := min(dict, len(p))
						n := min(n, len(p)-dict)
						compare(t, &d, deflated(t, p[dict:dict+n], p[:dict], level), p[:dict], n)
					}
				}
			}
		})
	}
}

// TestDecoder_EveryBitIsDamaged flips every bit of the first bytes, cuts, and asks for other lengths.
func TestDecoder_EveryBitIsDamaged(t *testing.T) {
	var d inflate.Decoder
	for name, p := range contents() {
		t.Run(name, func(t *testing.T) {
			p = p[:min(len(p), 3000)]
			dict := p[:len(p)/5]
			raw := p[len(dict):]
			src := deflated(t, raw, dict, 6)
			for i := range 8 * min(len(src), 200) {
				b := bytes.Clone(src)
				b[i/8] ^= 1 << (i % 8)
				compare(t, &d, b, dict, len(raw))
			}
			for i := range min(len(src), 400) {
				compare(t, &d, src[:i], dict, len(raw))
				compare(t, &d, src[:len(src)-i], dict, len(raw))
			}
			for _, n := range []int{-300, -1, 1, 300} {
				if n += len(raw); n >= 0 {
					compare(t, &d, src, dict, n)
				}
			}
			if len(dict) > 0 {
				compare(t, &d, src, dict[:len(dict)/2], len(raw))
			}
		})
	}
}

// FuzzDecode compares with the standard library.
func FuzzDecode(f *testing.F) {
	for _, p := range contents() {
		p = p[:min(len(p), 2000)]
		for _, level := range []int{0, 1, 9} {
			f.Add(deflated(f, p[len(p)/4:], p[:len(p)/4], level), p[:len(p)/4], len(p)-len(p)/4)
		}
	}
	var d inflate.Decoder // as in use: one for all, with the tables of the stream before
	f.Fuzz(func(t *testing.T, src, dict []byte, n int) {
		if n < 0 || n > 1<<20 {
			t.Skip("the caller has bounded the length")
		}
		defer fuzzing.Bounded(t, len(src)+len(dict)+n)()
		compare(t, &d, src, dict, n)
	})
}

// BenchmarkDecode measures next to the library that was used before.
func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"text", "skewed", "near", "runs"} {
		p := contents()[name][:56<<10]
		dict, raw := p[:8<<10], p[8<<10:]
		src := deflated(b, raw, dict, 6)
		b.Run(name+"/inflate", func(b *testing.B) {
			var d inflate.Decoder
			buf := bytes.Clone(p)
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if err := d.Decode(buf, len(dict), src); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/klauspost", func(b *testing.B) {
			r := kflate.NewReader(nil)
			out, in := make([]byte, len(raw)), bytes.NewReader(nil)
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				in.Reset(src)
				if err := r.(kflate.Resetter).Reset(in, dict); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(r, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
