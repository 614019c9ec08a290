package rebuild

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"testing"
)

func TestAppendVersion(t *testing.T) {
	for _, c := range []struct{ stored, want string }{
		{"\x01\x811.\x01\x8210.\x01\x812\x02-alpha.\x01\x813+build.7", `"1.10.2-alpha.3+build.7"`},
		{"\x01\x818.\x01\x8219\x03", `"8.19"`},
		{"no version 😀", `"no version 😀"`},
		{"\x03", `""`},
		{"\x01", `""`},
	} {
		if got := string(appendVersion(nil, []byte(c.stored))); got != c.want {
			t.Errorf("%q: %s, want %s", c.stored, got, c.want)
		}
	}
}

func TestAppendHistogram(t *testing.T) {
	var stored []byte
	for _, x := range []struct {
		count uint64
		value float64
	}{{3, 0.5}, {1 << 60, -2}} {
		stored = binary.BigEndian.AppendUint64(binary.AppendUvarint(stored, x.count), math.Float64bits(x.value))
	}
	got, err := appendHistogram(nil, stored, 0)
	if want := `{"values":[0.5,-2.0],"counts":[3,1152921504606846976]}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	if _, err := appendHistogram(nil, stored, 40); !errors.Is(err, ErrTooLong) {
		t.Errorf("more than 40 bytes: %v", err)
	}
	for _, damaged := range [][]byte{stored[:len(stored)-1], append([]byte{0}, stored...)} {
		if got, err := appendHistogram(nil, damaged, 0); err == nil {
			t.Errorf("%x: %s", damaged, got)
		}
	}
}

// FuzzBuckets reads any bytes as a histogram. What is read is JSON and has as many values as counts.
func FuzzBuckets(f *testing.F) {
	f.Add([]byte("\x03\x3f\xe0\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 16
		got, err := appendHistogram(nil, b, most)
		if err != nil {
			return
		}
		var h struct{ Values, Counts []any }
		if err := json.Unmarshal(got, &h); err != nil || len(h.Values) != len(h.Counts) || len(h.Values) > len(b)/9 {
			t.Fatalf("%x: %s, %v", b, got, err)
		}
	})
}

// FuzzBlobs reads any bytes as several values in one. What is read, written again, is the same.
func FuzzBlobs(f *testing.F) {
	f.Add([]byte("\x01a\x02bc"), int64(2))
	f.Add([]byte("\x00"), int64(1))
	f.Fuzz(func(t *testing.T, b []byte, count int64) {
		var all [][]byte
		if err := splitBlobs(b, count, func(v []byte) error { all = append(all, v); return nil }); err != nil {
			return
		}
		var again []byte
		for _, v := range all {
			again = append(binary.AppendUvarint(again, uint64(len(v))), v...)
		}
		if int64(len(all)) != count || len(again) == len(b) && !bytes.Equal(again, b) {
			t.Fatalf("%d values of %x: %q", count, b, all)
		}
	})
}
