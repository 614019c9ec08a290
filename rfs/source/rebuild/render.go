package rebuild

import (
	"bytes"
	"encoding/base64"
	"math"
	"net/netip"
	"strconv"
	"unicode/utf8"
)

// appendUTF8 appends a JSON string as the cluster writes terms: UTF-8 as it is.
func appendUTF8(dst, s []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = appendEscape(append(dst, s[from:i]...), c)
		from = i + 1
	}
	return append(append(dst, s[from:]...), '"')
}

// appendText appends a JSON string as the cluster writes Java strings: characters outside the basic plane as two escapes.
func appendText(dst, s []byte) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		switch {
		case n == 1 && (r < 0x20 || r == '"' || r == '\\'):
			dst = appendEscape(dst, s[0])
		case r > 0xFFFF:
			dst = appendPair(dst, r)
		default:
			dst = append(dst, s[:n]...)
		}
		s = s[n:]
	}
	return append(dst, '"')
}

// escapeHigh replaces characters outside the basic plane in the JSON b[from:] by escapes, as appendText does: the cluster parses what it
// has stored and writes it again.
func escapeHigh(b []byte, from int) []byte {
	if !bytes.ContainsFunc(b[from:], func(r rune) bool { return r > 0xFFFF }) {
		return b
	}
	text := bytes.Clone(b[from:])
	b = b[:from]
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r > 0xFFFF {
			b = appendPair(b, r)
		} else {
			b = append(b, text[:n]...)
		}
		text = text[n:]
	}
	return b
}

// appendPair appends a character outside the basic plane as two escapes.
func appendPair(dst []byte, r rune) []byte {
	r -= 0x10000
	return appendUnicode(appendUnicode(dst, 0xD800+r>>10), 0xDC00+r&0x3FF)
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\t':
		return append(dst, `\t`...)
	case '\n':
		return append(dst, `\n`...)
	case '\f':
		return append(dst, `\f`...)
	case '\r':
		return append(dst, `\r`...)
	}
	return appendUnicode(dst, rune(c))
}

func appendUnicode(dst []byte, r rune) []byte {
	const hex = "0123456789ABCDEF"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// appendFloat appends a number as Java writes it: the shortest digits that identify it, always with a fraction, and with an exponent
// outside [1e-3, 1e7). Infinities and NaN become strings, because JSON has none.
func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	if abs := math.Abs(v); abs == 0 || abs >= 1e-3 && abs < 1e7 {
		from := len(dst)
		dst = strconv.AppendFloat(dst, v, 'f', -1, bits)
		return withFraction(dst, from)
	}
	var b [32]byte
	digits := strconv.AppendFloat(b[:0], v, 'e', -1, bits)
	if !bytes.ContainsRune(digits, '.') {
		two := strconv.FormatFloat(v, 'e', 1, bits)
		if back, err := strconv.ParseFloat(two, bits); err == nil && back == v { // Java takes the nearest of two digits
			digits = append(digits[:0], two...)
		}
	}
	for i, c := range digits {
		if c != 'e' {
			continue
		}
		from := len(dst)
		dst = withFraction(append(dst, digits[:i]...), from)
		exponent, _ := strconv.Atoi(string(digits[i+1:])) //nolint:errcheck // AppendFloat wrote the digits
		return strconv.AppendInt(append(dst, 'E'), int64(exponent), 10)
	}
	return append(dst, digits...)
}

// withFraction appends .0 to the number that starts at from if it has no fraction.
func withFraction(dst []byte, from int) []byte {
	for _, c := range dst[from:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

func appendDouble(dst []byte, v float64) []byte { return appendFloat(dst, v, 64) }

// sortableDouble returns the double of an integer that sorts like it.
func sortableDouble(v int64) float64 { return math.Float64frombits(uint64(v ^ v>>63&math.MaxInt64)) }

func sortableFloat(v int64) float64 {
	b := int32(v)
	return float64(math.Float32frombits(uint32(b ^ b>>31&math.MaxInt32)))
}

// sortableHalf returns the 16-bit float of an integer that sorts like it: 1 bit of sign, 5 of exponent, 10 of fraction.
func sortableHalf(v int64) float64 {
	b := int16(v)
	h := uint16(b ^ b>>15&math.MaxInt16)
	exponent, fraction := int(h>>10&31), float64(h&1023)
	var f float64
	switch exponent {
	case 0:
		f = math.Ldexp(fraction, -24)
	case 31:
		if f = math.Inf(1); fraction != 0 {
			return math.NaN()
		}
	default:
		f = math.Ldexp(1024+fraction, exponent-25)
	}
	if h>>15 != 0 {
		f = -f
	}
	return f
}

// appendIP appends an address of 16 bytes; IPv4 addresses are in ::ffff:0:0/96.
func appendIP(dst, b []byte) ([]byte, bool) {
	if len(b) != 16 {
		return dst, false
	}
	dst = append(dst, '"')
	dst = netip.AddrFrom16([16]byte(b)).Unmap().AppendTo(dst)
	return append(dst, '"'), true
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// appendGeo appends a point whose coordinates each take 32 bits of their range.
func appendGeo(dst []byte, v int64) []byte {
	dst = appendDouble(append(dst, `{"lat":`...), float64(int32(v>>32))*(180.0/(1<<32)))
	dst = appendDouble(append(dst, `,"lon":`...), float64(int32(v))*(360.0/(1<<32)))
	return append(dst, '}')
}

// unscaled returns the number that Elasticsearch returns for a value of a scaled_float (decodeForSyntheticSource of its mapper).
// Scaling it again gives the value.
func unscaled(value int64, factor float64) float64 {
	v := float64(value) / factor
	if math.IsInf(v, 0) {
		return math.Copysign(math.MaxFloat64, v)
	}
	switch again := roundHalfUp(v * factor); {
	case again > value:
		v -= ulp(v)
	case again < value:
		v += ulp(v)
	}
	return v
}

// roundHalfUp rounds as Math.round of Java: halves up, and values out of range to the nearest representable integer.
func roundHalfUp(v float64) int64 {
	switch {
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	}
	down := math.Floor(v)
	if v-down >= 0.5 {
		down++
	}
	return int64(down)
}

// ulp returns the distance from a number to the next number farther from zero, as Math.ulp of Java.
func ulp(v float64) float64 {
	v = math.Abs(v)
	if v == math.MaxFloat64 {
		return v - math.Nextafter(v, 0)
	}
	return math.Nextafter(v, math.Inf(1)) - v
}
