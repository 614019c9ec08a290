// Package lzf decompresses LZF as Elasticsearch 1.x wrote it: for metadata, and for
// _source of indices with "compress". A stream is a sequence of chunks, each
// "ZV", a type byte (0 stored, 1 compressed), and 16-bit big-endian lengths.
package lzf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

var errShort = errors.New("ends early")

// Is reports whether b starts like an LZF stream.
func Is(b []byte) bool { return len(b) >= 5 && b[0] == 'Z' && b[1] == 'V' && b[2] <= 1 }

// Append decompresses the stream b and appends the result to dst. Each chunk yields at most 65,535 bytes, so the input bounds the result.
// Errors are fault.ErrCorrupt.
func Append(dst, b []byte) ([]byte, error) {
	start := len(dst)
	for at := 0; at < len(b); {
		n, out, err := appendChunk(dst, b[at:])
		if err != nil {
			return dst[:start], fmt.Errorf("LZF chunk at byte %d: %w: %w", at, err, fault.ErrCorrupt)
		}
		dst = out
		at += n
	}
	return dst, nil
}

// Length returns the decompressed length of the stream b in bytes, as its chunks state it. Errors are fault.ErrCorrupt.
func Length(b []byte) (int, error) {
	total := 0
	for at := 0; at < len(b); {
		c := b[at:]
		if len(c) < 7 && (len(c) < 5 || c[2] != 0) {
			return 0, fmt.Errorf("LZF chunk at byte %d: %w: %w", at, errShort, fault.ErrCorrupt)
		}
		n := int(binary.BigEndian.Uint16(c[3:]))
		if c[2] == 0 {
			at += 5 + n
			total += n
			continue
		}
		at += 7 + n
		total += int(binary.BigEndian.Uint16(c[5:]))
	}
	return total, nil
}

// appendChunk decompresses the chunk at the start of b and returns its length in b.
func appendChunk(dst, b []byte) (int, []byte, error) {
	if len(b) < 5 {
		return 0, nil, errShort
	}
	if b[0] != 'Z' || b[1] != 'V' {
		return 0, nil, fmt.Errorf("%02x %02x is not a chunk", b[0], b[1])
	}
	n := int(binary.BigEndian.Uint16(b[3:]))
	switch b[2] {
	case 0:
		if len(b) < 5+n {
			return 0, nil, errShort
		}
		return 5 + n, append(dst, b[5:5+n]...), nil
	case 1:
		if len(b) < 7+n {
			return 0, nil, errShort
		}
		raw := int(binary.BigEndian.Uint16(b[5:]))
		dst, err := expand(dst, b[7:7+n], raw)
		return 7 + n, dst, err
	}
	return 0, nil, fmt.Errorf("chunk type %d", b[2])
}

// expand decompresses the data of one chunk to raw bytes: a control byte below 32 is followed by that many literals plus one; otherwise its
// upper three bits are a length (7: the next byte is added), its lower five and the next byte a distance minus one, and length + 2 bytes
// are repeated.
func expand(dst, b []byte, raw int) ([]byte, error) {
	start := len(dst)
	for len(b) > 0 {
		c := int(b[0])
		b = b[1:]
		if c < 32 {
			if len(b) < c+1 {
				return nil, errShort
			}
			dst = append(dst, b[:c+1]...)
			b = b[c+1:]
			continue
		}
		n := c >> 5
		if n == 7 {
			if len(b) == 0 {
				return nil, errShort
			}
			n += int(b[0])
			b = b[1:]
		}
		if len(b) == 0 {
			return nil, errShort
		}
		from := len(dst) - ((c&31)<<8 | int(b[0])) - 1
		b = b[1:]
		if from < start {
			return nil, errors.New("repeats what lies before the chunk")
		}
		if len(dst)-start+n+2 > raw {
			return nil, fmt.Errorf("more than the %d bytes it declares", raw)
		}
		for i := range n + 2 {
			dst = append(dst, dst[from+i])
		}
	}
	if len(dst)-start != raw {
		return nil, fmt.Errorf("%d bytes instead of %d", len(dst)-start, raw)
	}
	return dst, nil
}
