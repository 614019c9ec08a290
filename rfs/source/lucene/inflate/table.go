package inflate

import "math/bits"

/*
A decoding table of two levels is indexed by the next bits of the stream. The first level has
1<<bits entries; a longer code has an entry there that leads to a table of the second level.

An entry of literals and lengths holds one symbol, or two whose codes fit into the first level together: two literals, or a
literal and a length. The extra bits of a length are part of the entry if they fit, too:

	bits 0–5    number of bits of the stream that the entry takes
	bit 7       of extra bits, here and below: bits 0–5 count them, too, bits 8–11 the code alone
	bits 8–15   the first literal
	bits 16–23  the second literal, or the length of a match less 3
	bit 28      a match follows the literals; its length is complete
	bit 29      an exception: one of the next three, or an invalid code
	bit 27      leads on: bits 16–25 are the start of its table in the second level, bits 8–11 the number of bits that index it
	bit 26      a length with extra bits, which follow the code; bits 16–23 are the least length less 3
	bit 24      end of the block
	bits 30–31  number of literals

An entry of distances:

	bits 0–5    number of bits of the stream that the entry takes, extra bits included
	bit 7       always
	bits 8–11   bits of the code alone
	bits 16–30  least distance (up to 24577)
	bit 14      an exception: leads on, or an invalid code
	bit 13      leads on, as above
*/
const (
	literal  = 1 << 30
	isMatch  = 1 << 28
	special  = 1 << 29
	leadsOn  = 1 << 27
	extended = 1 << 26
	blockEnd = 1 << 24

	twoLengths = 1 << 7

	distSpecial = 1 << 14
	distLeadsOn = 1 << 13

	preSpecial = 1 << 14 // invalid code; in the code length code, whose entries hold a length in bits 16–20

	litBits  = 11
	distBits = 9
	preBits  = 7

	// A table of the second level with 1<<k entries has more than k codes. So it has at most twice as many entries as codes of
	// literals and lengths, where k ≤ 3; of 32 codes of distances, zlib's enough.c counts at most 594 entries in both levels. The
	// sizes are powers of two so that a masked index needs no check.
	litSize  = 8192
	distSize = 1024

	maxCode = 15
	maxLits = 288
	maxDist = 32

	sortedSize = 512 // a power of two, of at least maxLits
)

// Entries by symbol, without the lengths of their codes.
var (
	litMeaning  = litMeanings()
	distMeaning = distMeanings()
	preMeaning  = preMeanings()
)

func litMeanings() (m [maxLits]uint32) {
	for i := range 256 {
		m[i] = literal | uint32(i)<<8
	}
	m[256] = special | blockEnd
	base := uint32(0)
	for i := range uint32(28) {
		extra := uint32(0)
		if i >= 8 {
			extra = i/4 - 1
		}
		m[257+i] = isMatch | base<<16
		if extra > 0 {
			m[257+i] = special | extended | twoLengths | base<<16 | extra
		}
		base += 1 << extra
	}
	m[285] = isMatch | 255<<16
	m[286], m[287] = special, special
	return m
}

func distMeanings() (m [maxDist]uint32) {
	base := uint32(1)
	for i := range uint32(30) {
		extra := uint32(0)
		if i >= 4 {
			extra = i/2 - 1
		}
		m[i] = twoLengths | base<<16 | extra
		base += 1 << extra
	}
	m[30], m[31] = distSpecial, distSpecial
	return m
}

func preMeanings() (m [19]uint32) {
	for i := range m {
		m[i] = uint32(i) << 16
	}
	return m
}

// codes are the symbols of a Huffman code in the order of their codes.
type codes struct {
	count  [maxCode + 1]int // number of symbols by code length
	sorted [sortedSize]uint16
	n      int // symbols with a code
}

// set sorts the symbols by the given code lengths, and reports whether these form a complete code. Like other decoders it accepts an empty
// code, and a single code of one bit.
func (c *codes) set(lengths []uint8) bool {
	// Neighbours often have the same length. Counting them in separate arrays avoids a dependency between the two increments.
	var even, odd [maxCode + 1]int32
	for i := 0; i+1 < len(lengths); i += 2 {
		even[lengths[i]&maxCode]++
		odd[lengths[i+1]&maxCode]++
	}
	if len(lengths)%2 == 1 {
		even[lengths[len(lengths)-1]&maxCode]++
	}
	var at [maxCode + 1]uint32
	space, n := 0, 0
	for k := 1; k <= maxCode; k++ {
		c.count[k] = int(even[k] + odd[k])
		at[k] = uint32(n)
		space += c.count[k] << (maxCode - k)
		n += c.count[k]
	}
	c.n = n
	if space != 1<<maxCode && n != 0 && (n != 1 || c.count[1] != 1) {
		return false
	}
	at[0] = uint32(n) // symbols without a code follow the ones with a code
	for s, k := range lengths {
		c.sorted[at[k&maxCode]%sortedSize] = uint16(s)
		at[k&maxCode]++
	}
	return true
}

// complete reports whether every bit sequence starts with a code.
func (c *codes) complete() bool { return c.n > 1 }

// build builds the table of a code without pairs. none is the entry for bits that are not a code.
func build(table, meaning []uint32, c *codes, tableBits int, none, leads uint32) {
	if !c.complete() {
		fill(table[:1<<tableBits], none)
	}
	// Codes of at most tableBits: the table doubles with each bit.
	code, next, filled := 0, 0, 1
	for n := 1; n <= tableBits; n++ {
		code <<= 1
		filled = double(table, filled, n)
		for range c.count[n] {
			table[reverse(code, n)] = entry(meaning[c.sorted[next]], n)
			code++
			next++
		}
	}
	buildSecond(table, meaning, c, next, code, tableBits, leads)
}

func fill(table []uint32, e uint32) {
	for i := range table {
		table[i] = e
	}
}

// double repeats the entries of the first level so that n bits index them.
func double(table []uint32, filled, n int) int {
	if filled < 1<<n {
		copy(table[filled:2*filled], table[:filled])
		filled *= 2
	}
	return filled
}

// buildSecond builds the tables of the second level for the symbols from next on; code is the code after the last one of the first level.
func buildSecond(table, meaning []uint32, c *codes, next, code, tableBits int, leads uint32) {
	prefix, begin, end := -1, 0, 1<<tableBits
	for n := tableBits + 1; n <= maxCode; n++ {
		code <<= 1
		for left := c.count[n]; left > 0; left-- {
			rev := reverse(code, n)
			if p := rev & (1<<tableBits - 1); p != prefix {
				prefix, begin = p, end
				width := n - tableBits
				for used := left; used < 1<<width; {
					width++
					used = used<<1 + c.count[tableBits+width]
				}
				end = begin + 1<<width
				table[p] = uint32(begin-1<<tableBits)<<16 | leads | uint32(width)<<8 | uint32(tableBits)
			}
			e := entry(meaning[c.sorted[next]], n-tableBits)
			for i := begin + rev>>tableBits; i < end; i += 1 << (n - tableBits) {
				table[i] = e
			}
			next++
			code++
		}
	}
}

// entry returns the entry of a symbol whose code has n bits.
func entry(meaning uint32, n int) uint32 {
	if meaning&twoLengths != 0 {
		return meaning + uint32(n) + uint32(n)<<8
	}
	return meaning + uint32(n)
}

// reverse returns the lowest n bits of a code in reverse order, the order of the stream.
func reverse(code, n int) int { return int(bits.Reverse16(uint16(code)) >> (16 - n)) }
