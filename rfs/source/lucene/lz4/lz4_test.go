package lz4_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	oracle "github.com/pierrec/lz4/v4"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/lz4"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// texts are raw bytes of all kinds: random, runs, repeats at all distances.
func texts() [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	out := [][]byte{bytes.Repeat([]byte{'a'}, 70000), []byte("short text"), bytes.Repeat([]byte("abc"), 999)}
	for n := 1; n < 200_000; n = n*3 + 1 {
		random := make([]byte, n)
		words := make([]byte, 0, n)
		for i := range random {
			random[i] = byte(r.Uint32())
		}
		for len(words) < n {
			k := r.IntN(1 + min(len(words), 70000))
			if r.IntN(3) == 0 || k == 0 {
				words = append(words, random[:1+r.IntN(min(n, 30))]...)
				continue
			}
			words = append(words, words[len(words)-k:min(len(words), len(words)-k+r.IntN(300))]...)
		}
		out = append(out, random, words[:n])
	}
	return out
}

func compress(t testing.TB, p []byte) []byte {
	t.Helper()
	dst := make([]byte, oracle.CompressBlockBound(len(p)))
	n, err := oracle.CompressBlockHC(p, dst, oracle.Level5, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dst[:n]
}

func TestDecodeGivesBackWhatWasCompressedAndSaysWhereItEnded(t *testing.T) {
	tried := 0
	for _, p := range texts() {
		c := compress(t, p)
		if len(c) == 0 {
			continue // not compressible
		}
		tried++
		for _, tail := range []int{0, 1, 40} {
			src := append(bytes.Clone(c), make([]byte, tail)...)
			buf := make([]byte, len(p))
			n, err := lz4.Decode(buf, 0, src)
			if err != nil || n != len(c) || !bytes.Equal(buf, p) {
				t.Fatalf("%d raw bytes: took %d of %d, %v", len(p), n, len(c), err)
			}
			if n, err := lz4.Measure(src, 0, len(p)); err != nil || n != len(c) {
				t.Fatalf("%d raw bytes: measured %d of %d, %v", len(p), n, len(c), err)
			}
		}
	}
	if tried < 10 {
		t.Fatalf("only %d texts were compressible", tried)
	}
}

func TestMatchesReachIntoTheDictionaryAndNotBeforeIt(t *testing.T) {
	buf := append([]byte("0123456789abcdef"), make([]byte, 9)...)
	src := []byte{0x01, 16, 0, 0x40, 'w', 'x', 'y', 'z'}
	if n, err := lz4.Decode(buf, 16, src); err != nil || n != len(src) || string(buf[16:]) != "01234wxyz" {
		t.Errorf("%q, %d taken, %v", buf[16:], n, err)
	}
	src[1] = 17
	if _, err := lz4.Decode(buf, 16, src); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a match before the dictionary gives %v", err)
	}
}

func TestDamagedBlocksAreErrors(t *testing.T) {
	p := bytes.Repeat([]byte("some text, and more text; "), 30)
	c := compress(t, p)
	for n := range c {
		if _, err := lz4.Decode(make([]byte, len(p)), 0, c[:n]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d of %d bytes give %v", n, len(c), err)
		}
	}
	if _, err := lz4.Measure(c, 0, len(p)+1); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a length that is too large gives %v", err)
	}
}

// FuzzDecode compares with another decoder: what it accepts must come out the same.
func FuzzDecode(f *testing.F) {
	for _, p := range texts()[:8] {
		f.Add(compress(f, p), len(p), []byte("dictionary"))
	}
	f.Fuzz(func(t *testing.T, src []byte, n int, dict []byte) {
		defer fuzzing.Bounded(t, len(src)+len(dict))()
		if n < 1 || n > 1<<20 {
			t.Skip("the caller has bounded the length")
		}
		buf := append(bytes.Clone(dict), make([]byte, n)...)
		took, err := lz4.Decode(buf, len(dict), src)
		measured, merr := lz4.Measure(src, len(dict), n)
		if (err == nil) != (merr == nil) || err == nil && took != measured {
			t.Fatalf("decoded %d, %v; measured %d, %v", took, err, measured, merr)
		}
		if !bytes.Equal(buf[:len(dict)], dict) {
			t.Fatal("the dictionary was changed")
		}
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("error without a category: %v", err)
			}
			return
		}
		want := make([]byte, n)
		if m, err := oracle.UncompressBlockWithDict(src[:took], want, dict); err == nil && m == n && !bytes.Equal(want, buf[len(dict):]) {
			t.Fatal("another decoder gives other bytes")
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	p := texts()[len(texts())-1]
	c := compress(b, p)
	buf := make([]byte, len(p))
	b.Run("own", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			if _, err := lz4.Decode(buf, 0, c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("oracle", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			if _, err := oracle.UncompressBlock(c, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
