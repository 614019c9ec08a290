package lucene

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

func TestDamageThatIsNamedAlreadyStaysAsItIs(t *testing.T) {
	s := &source{name: "_0.fdt", file: memFile{"_0.fdt", make([]byte, 100)}, size: 100}
	named := fault.Corrupt("__x", "_1.fnm", 7, "checksum")
	for _, err := range []error{named, fmt.Errorf("field infos: %w", named)} {
		var d *fault.Damage
		got := s.wrapAt(err, 50)
		if !errors.As(got, &d) || d.File != "_1.fnm" || d.Offset != 7 || !errors.Is(got, fault.ErrCorrupt) {
			t.Errorf("%v became %v", err, got)
		}
	}
	if got := s.wrapAt(fmt.Errorf("x: %w", fault.ErrCorrupt), 50); !errors.Is(got, fault.ErrCorrupt) {
		t.Errorf("damage without a place became %v", got)
	}
	if got := s.wrapAt(fault.ErrUnavailable, 50); !errors.Is(got, fault.ErrUnavailable) || errors.Is(got, fault.ErrCorrupt) {
		t.Errorf("an outage became %v", got)
	}
	if got := s.wrap(nil); got != nil {
		t.Error(got)
	}
}

func TestSizesOfStoredFieldsAreCheckedBeforeTheyAreUsed(t *testing.T) {
	for _, c := range []struct {
		name    string
		version int
		write   func(o *out)
		damaged string
	}{
		{"g41, packed integers of an unknown version", 0, func(o *out) { o.vint(3) }, "packed integers of version 3"},
		{"g41, chunks of a negative size", 2, func(o *out) { o.vint(-5); o.vint(2) }, "chunks of -5 bytes"},
		{"g41, the file ends", 1, func(o *out) { o.vint(1) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o out
			c.write(&o)
			s := &storedFields{version: int32(c.version), fdt: &source{name: "_0.fdt", file: memFile{"_0.fdt", o.b}, size: int64(len(o.b))}}
			err := g41{}.open(t.Context(), s, codec.NewInput(o.b))
			var d *fault.Damage
			if !errors.As(err, &d) || d.File != "_0.fdt" || c.damaged != "" && d.Err.Error() != c.damaged {
				t.Errorf("%v, want damage %q", err, c.damaged)
			}
		})
	}
}

// ends is a reader that ends with an error of its own.
type ends struct {
	io.Reader
	err error
}

func (e ends) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = e.err
	}
	return n, err
}

func TestRawBytesAreAsManyAsStated(t *testing.T) {
	for _, c := range []struct {
		name string
		r    io.Reader
		good bool
	}{
		{"as many", strings.NewReader("abc"), true},
		{"fewer", strings.NewReader("ab"), false},
		{"none", strings.NewReader(""), false},
		{"more", strings.NewReader("abcd"), false},
		{"damage behind the last", ends{strings.NewReader("abc"), errors.New("bad block")}, false},
	} {
		p := make([]byte, 3)
		if err := readFull(c.r, p); c.good && (err != nil || string(p) != "abc") || !c.good && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %q, %v", c.name, p, err)
		}
	}
}

func TestUnitsThatAreCutAreDamage(t *testing.T) {
	raw := bytes.Repeat([]byte("abcdefgh"), 100)
	for name, f := range storedFormats {
		if f.compression == nil {
			continue
		}
		for _, src := range [][]byte{nil, {1}, {0xFF}} {
			if _, _, err := f.compression().unit(nil, src, len(raw), nil, true); err == nil {
				t.Errorf("%s: %d bytes are a unit of %d", name, len(src), len(raw))
			}
		}
	}
	in := codec.NewInput([]byte{7, 1, 2, 3})
	if readStoredInts(in, make([]int32, 3), nil); in.Err() == nil {
		t.Error("integers of 7 bits are read")
	}
}
