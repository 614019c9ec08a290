package smile

import (
	"bytes"
	"encoding/base64"
	"math"
	"math/big"
	"strconv"
)

// maxDigits limits the length of an arbitrary-precision integer, in bytes.
const maxDigits = 1 << 16

// bits reads n bytes of 7 bits each, most significant group first.
func (d *decoder) bits(n int) (uint64, error) {
	s, err := d.take(n)
	if err != nil {
		return 0, err
	}
	var v uint64
	for _, c := range s {
		v = v<<7 | uint64(c&0x7F)
	}
	return v, nil
}

// float appends the shortest text that parses as the same number. A value that JSON cannot represent becomes the string that Jackson
// writes.
func (d *decoder) float(v float64, size int) error {
	switch {
	case math.IsNaN(v):
		d.out = append(d.out, `"NaN"`...)
	case math.IsInf(v, 1):
		d.out = append(d.out, `"Infinity"`...)
	case math.IsInf(v, -1):
		d.out = append(d.out, `"-Infinity"`...)
	default:
		abs := math.Abs(v)
		format := byte('f')
		if abs != 0 && (abs < 1e-3 || abs >= 1e7) {
			format = 'E'
		}
		begin := len(d.out)
		d.out = strconv.AppendFloat(d.out, v, format, -1, size)
		if format == 'f' && bytes.IndexByte(d.out[begin:], '.') < 0 {
			d.out = append(d.out, ".0"...)
		}
	}
	return nil
}

func (d *decoder) bigInteger() (*big.Int, error) {
	raw, err := d.sevenBit()
	if err != nil {
		return nil, err
	}
	if len(raw) > maxDigits {
		return nil, d.corrupt("integer of %d bytes", len(raw))
	}
	v := new(big.Int).SetBytes(raw)
	if len(raw) > 0 && raw[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	return v, nil
}

// bigDecimal appends unscaled × 10^-scale exactly, with an exponent.
func (d *decoder) bigDecimal() error {
	s, err := d.vint()
	if err != nil {
		return err
	}
	unscaled, err := d.bigInteger()
	if err != nil {
		return err
	}
	scale := zigzag(s)
	if scale > math.MaxInt32 || scale < math.MinInt32 {
		return d.corrupt("scale %d of a decimal number", scale)
	}
	digits := unscaled.String()
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	switch {
	case scale == 0:
		d.out = append(append(d.out, sign...), digits...)
	case scale > 0 && int64(len(digits))-scale > -6:
		for int64(len(digits)) <= scale {
			digits = "0" + digits
		}
		at := int64(len(digits)) - scale
		d.out = append(append(append(append(d.out, sign...), digits[:at]...), '.'), digits[at:]...)
	default:
		d.out = append(append(append(d.out, sign...), digits...), 'E')
		d.out = strconv.AppendInt(d.out, -scale, 10)
	}
	return nil
}

// sevenBit reads a binary value encoded with 7 bits per byte: 8 bytes for each 7, and n+1 bytes for the last n, the last one right-aligned.
func (d *decoder) sevenBit() ([]byte, error) {
	n, err := d.length()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, 0, n)
	for len(raw) < n {
		group := min(7, n-len(raw))
		s, err := d.take(group + 1)
		if err != nil {
			return nil, err
		}
		var v uint64
		for _, c := range s[:group] {
			v = v<<7 | uint64(c&0x7F)
		}
		v = v<<uint(group) | uint64(s[group]&0x7F)
		for k := group - 1; k >= 0; k-- {
			raw = append(raw, byte(v>>(8*uint(k))))
		}
	}
	return raw, nil
}

func (d *decoder) binary7() error {
	raw, err := d.sevenBit()
	if err != nil {
		return err
	}
	return d.base64(raw)
}

func (d *decoder) rawBinary() error {
	n, err := d.length()
	if err != nil {
		return err
	}
	raw, err := d.take(n)
	if err != nil {
		return err
	}
	return d.base64(raw)
}

func (d *decoder) base64(raw []byte) error {
	if len(d.out)+base64.StdEncoding.EncodedLen(len(raw)) > d.limit {
		return ErrLimit
	}
	d.out = append(d.out, '"')
	d.out = base64.StdEncoding.AppendEncode(d.out, raw)
	d.out = append(d.out, '"')
	return nil
}
