package lzf_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lzf"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestChunksBecomeTheirBytes(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"stored", "ZV\x00\x00\x03abc", "abc"},
		{"two chunks", "ZV\x00\x00\x01aZV\x00\x00\x01b", "ab"},
		{"literals", "ZV\x01\x00\x04\x00\x03\x02abc", "abc"},
		{"overlapping repeat", "ZV\x01\x00\x05\x00\x0A\x00a\xE0\x00\x00", "aaaaaaaaaa"},
		{"repeat of 3", "ZV\x01\x00\x06\x00\x06\x02abc\x20\x02", "abcabc"},
	} {
		got, err := lzf.Append([]byte("x"), []byte(c.in))
		if err != nil || string(got) != "x"+c.want {
			t.Errorf("%s: got %q, %v", c.name, got, err)
		}
	}
}

func TestDamageIsNamed(t *testing.T) {
	for _, in := range []string{"Z", "ZV\x00\x00\x03ab", "ZV\x02\x00\x00", "AB\x00\x00\x00", "ZV\x01\x00\x02\x00\x03\x02a",
		"ZV\x01\x00\x02\x00\x03\x20\x00", "ZV\x01\x00\x02\x00\x09\x00a",
		"ZV\x01\x00\x05\x00\x09\x00a\xE0\x00\x00"} {
		if out, err := lzf.Append(nil, []byte(in)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%q: %q, %v", in, out, err)
		}
	}
}

func FuzzAppend(f *testing.F) {
	f.Add([]byte("ZV\x01\x00\x06\x00\x06\x02abc\x20\x02"))
	f.Add([]byte("ZV\x00\x00\x03abc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		out, err := lzf.Append([]byte("kept"), b)
		if !bytes.HasPrefix(out, []byte("kept")) {
			t.Fatal("dst was changed")
		}
		if err == nil && len(out)-4 > 65535*(len(b)/5+1) {
			t.Fatalf("%d bytes from %d", len(out), len(b))
		}
	})
}
