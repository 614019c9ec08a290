package columns

import "github.com/rfsd/rfsd/rfs/lucene/codec"

/*
The set of documents that have a value, in .dvd at the place that .dvm states. Blocks of
65536 documents, in the byte order of the file:

	u16 block | u16 cardinality-1 |
	cardinality <= 4095  that many u16, the low halves of the document numbers
	cardinality == 65536 nothing: all documents of the block
	else                 [80 and later with a rank power p: 1024 >> (p-7) bytes] 1024 u64, a bitmap

A block 0x7FFF of the one document 0xFFFF ends the set; a jump table may follow.
*/
const (
	setBlock    = 1 << 16
	setSparse   = 4095
	setSentinel = 0x7FFF
)

// ParseSet calls yield for each document of the set, in rising order.
func ParseSet(b []byte, le bool, rankPower int8, maxDoc int32, yield func(doc int32)) (int64, error) {
	in := codec.NewInput(b)
	in.SetLittleEndian(le)
	total, last := int64(0), int32(-1)
	add := func(block, low int32) {
		d := block<<16 | low
		if d <= last || d >= maxDoc {
			in.Fail("document %d after %d, of %d", d, last, maxDoc)
			return
		}
		last = d
		total++
		yield(d)
	}
	for in.Err() == nil {
		block := int32(uint16(in.I16()))
		n := int32(uint16(in.I16())) + 1
		if in.Err() == nil && block > setSentinel {
			in.Fail("block %d", block)
		}
		switch {
		case in.Err() != nil:
		case n <= setSparse:
			for range n {
				low := int32(uint16(in.I16()))
				if block == setSentinel && n == 1 && low == 0xFFFF {
					return total, in.Err()
				}
				if in.Err() != nil {
					break
				}
				add(block, low)
			}
		case n == setBlock:
			for low := int32(0); low < setBlock && in.Err() == nil; low++ {
				add(block, low)
			}
		default:
			denseBlock(in, n, rankPower, func(low int32) { add(block, low) })
		}
	}
	return total, in.Err()
}

func denseBlock(in *codec.Input, n int32, rankPower int8, add func(low int32)) {
	if rankPower != -1 {
		if rankPower < 7 || rankPower > 15 {
			in.Fail("rank power %d", rankPower)
			return
		}
		in.Take(1024 >> (rankPower - 7))
	}
	found := int32(0)
	for w := int32(0); w < 1024 && in.Err() == nil; w++ {
		word := uint64(in.I64())
		for bit := int32(0); word != 0; bit++ {
			if word&1 != 0 {
				found++
				add(w<<6 | bit)
			}
			word >>= 1
		}
	}
	if in.Err() == nil && found != n {
		in.Fail("block of %d documents holds %d", n, found)
	}
}
