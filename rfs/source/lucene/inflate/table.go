package inflate

import "math/bits"

/*
A decoding table of two levels is indexed by the next bits of the stream. The first level has
1<<bits entries; a longer code has an entry there that leads to a table of the second level.

	bits 0–5    bits of the stream that the entry stands for, extra bits included
	bits 8–11   bits of the code alone; of an entry that leads on: bits that index the second level
	bits 16–30  literal, least length, least distance (up to 24577), or where the second level starts
	bit 31      literal
	bit 14      not a literal and not a length or distance: one of the next two, or no code at all
	bit 13      leads on
	bit 12      end of the block
*/
const (
	literal   = 1 << 31
	exception = 1 << 14
	leadsOn   = 1 << 13
	blockEnd  = 1 << 12

	litBits  = 11
	distBits = 9
	preBits  = 7

	// The most entries that codes of 15 bits take are 2,342 of 288 symbols and 594 of 32. The sizes
	// are powers of two so that a masked index needs no check.
	litSize  = 4096
	distSize = 1024

	maxCode = 15
	maxLits = 288
	maxDist = 32
)

// What symbols mean, without the lengths of their codes.
var (
	litMeaning  = litMeanings()
	distMeaning = distMeanings()
	preMeaning  = preMeanings()
)

func litMeanings() (m [maxLits]uint32) {
	for i := range 256 {
		m[i] = literal | uint32(i)<<16
	}
	m[256] = exception | blockEnd
	base := uint32(3)
	for i := range uint32(28) {
		extra := uint32(0)
		if i >= 8 {
			extra = i/4 - 1
		}
		m[257+i] = base<<16 | extra
		base += 1 << extra
	}
	m[285] = 258 << 16
	m[286], m[287] = exception, exception
	return m
}

func distMeanings() (m [maxDist]uint32) {
	base := uint32(1)
	for i := range uint32(30) {
		extra := uint32(0)
		if i >= 4 {
			extra = i/2 - 1
		}
		m[i] = base<<16 | extra
		base += 1 << extra
	}
	m[30], m[31] = exception, exception
	return m
}

func preMeanings() (m [19]uint32) {
	for i := range m {
		m[i] = uint32(i) << 16
	}
	return m
}

// build returns the table of the codes whose lengths are given, and reports whether they are complete.
// Like every decoder in use it takes no code at all, and a single one of one bit.
func build(table, meaning []uint32, lengths []uint8, tableBits int) bool {
	var count [maxCode + 1]int
	for _, n := range lengths {
		count[n]++
	}
	count[0] = 0
	space, codes := 0, 0
	for n := 1; n <= maxCode; n++ {
		space += count[n] << (maxCode - n)
		codes += count[n]
	}
	switch {
	case space == 1<<maxCode:
	case codes == 0 || codes == 1 && count[1] == 1:
		for i := range table[:1<<tableBits] {
			table[i] = exception
		}
	default:
		return false
	}

	// Symbols in the order of their codes.
	var at [maxCode + 2]int
	for n := 1; n <= maxCode; n++ {
		at[n+1] = at[n] + count[n]
	}
	var sorted [maxLits]uint16
	for s, n := range lengths {
		if n > 0 {
			sorted[at[n]] = uint16(s)
			at[n]++
		}
	}

	// Codes of at most tableBits: the table doubles with each bit.
	code, next, filled := 0, 0, 1
	for n := 1; n <= tableBits; n++ {
		code <<= 1
		if filled < 1<<n {
			copy(table[filled:2*filled], table[:filled])
			filled *= 2
		}
		for range count[n] {
			table[reverse(code, n)] = entry(meaning[sorted[next]], n)
			code++
			next++
		}
	}
	buildSecond(table, meaning, sorted[next:codes], &count, code, tableBits)
	return true
}

// buildSecond makes the tables of the second level; code is the one after the last of the first.
func buildSecond(table, meaning []uint32, sorted []uint16, count *[maxCode + 1]int, code, tableBits int) {
	prefix, begin, end := -1, 0, 1<<tableBits
	for n := tableBits + 1; n <= maxCode; n++ {
		code <<= 1
		for left := count[n]; left > 0; left-- {
			rev := reverse(code, n)
			if p := rev & (1<<tableBits - 1); p != prefix {
				prefix, begin = p, end
				width := n - tableBits
				for used := left; used < 1<<width; {
					width++
					used = used<<1 + count[tableBits+width]
				}
				end = begin + 1<<width
				table[p] = uint32(begin)<<16 | exception | leadsOn | uint32(width)<<8 | uint32(tableBits)
			}
			e := entry(meaning[sorted[0]], n-tableBits)
			for i := begin + rev>>tableBits; i < end; i += 1 << (n - tableBits) {
				table[i] = e
			}
			sorted = sorted[1:]
			code++
		}
	}
}

// entry adds the length of a code to what its symbol means.
func entry(meaning uint32, n int) uint32 { return meaning + uint32(n) + uint32(n)<<8 }

// reverse turns the lowest n bits of a code around, as they come in the stream.
func reverse(code, n int) int { return int(bits.Reverse16(uint16(code)) >> (16 - n)) }
