package inflate

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// randomLengths draws the lengths of a complete code of so many symbols of 286: it divides places, the latest more often the more
// skewed the code is to be.
func randomLengths(r *rand.Rand, symbols, skew int) []uint8 {
	var full []uint8
	open := []uint8{0}
	for len(open)+len(full) < symbols {
		at := r.IntN(len(open))
		for range skew {
			at = max(at, r.IntN(len(open)))
		}
		n := open[at] + 1
		open = append(open[:at], open[at+1:]...)
		if n == maxCode {
			full = append(full, n, n)
		} else {
			open = append(open, n, n)
		}
	}
	lengths := make([]uint8, 286)
	all := append(full, open...)
	for i, s := range r.Perm(286)[:symbols] {
		lengths[s] = all[i]
	}
	return lengths
}

// spelled decodes the symbols at the start of the bits one by one: those whose codes, and extra bits of lengths, end within the first
// level of the table, at most two, a second one only behind a literal.
func spelled(c *codes, stream uint32) (entries []uint32, used int) {
	for len(entries) < 2 {
		code, first, index := 0, 0, 0
		n, found := 1, false
		for ; n <= maxCode && used+n <= litBits; n++ {
			code = code<<1 | int(stream>>(used+n-1)&1)
			if k := c.count[n]; code-first < k {
				index += code - first
				found = true
				break
			}
			index += c.count[n]
			first = (first + c.count[n]) << 1
		}
		if !found {
			return entries, used
		}
		m := litMeaning[c.sorted[index]]
		extra := 0
		if m&extended != 0 {
			extra = int(m & 63)
			if used+n+extra > litBits {
				return entries, used
			}
			m = isMatch | m&(0xff<<16) + (stream>>(used+n))&(1<<extra-1)<<16
		}
		if len(entries) == 1 && m&blockEnd != 0 && m&special != 0 {
			return entries, used
		}
		entries = append(entries, m)
		used += n + extra
		if m&literal == 0 {
			return entries, used
		}
	}
	return entries, used
}

// TestPairs_EntriesAreWhatTheirBitsSpell compares every entry of the first level, of many codes, with decoding bit by bit.
func TestPairs_EntriesAreWhatTheirBitsSpell(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var p pairs
	var table [litSize]uint32
	joined, lengths := 0, 0
	for range 300 {
		if !p.set(randomLengths(r, 2+r.IntN(285), r.IntN(4))) {
			t.Fatal("the lengths form no code")
		}
		p.build(&table)
		for i, e := range table[:1<<litBits] {
			want, used := spelled(&p.codes, uint32(i))
			if len(want) == 0 {
				if e&special == 0 || e&(leadsOn|extended) == 0 {
					t.Fatalf("%011b: entry %08x of a code that does not end here", i, e)
				}
				continue
			}
			if int(e&63) != used {
				t.Fatalf("%011b: entry %08x takes %d bits, not %d", i, e, e&63, used)
			}
			literals := 0
			for _, m := range want {
				switch {
				case m&literal != 0:
					if got, is := byte(e>>(8+8*literals)), byte(m>>8); got != is {
						t.Fatalf("%011b: literal %d, not %d", i, got, is)
					}
					literals++
				case m&isMatch != 0:
					if e&isMatch == 0 || e>>16&0xff != m>>16&0xff {
						t.Fatalf("%011b: entry %08x is not of a match of %d", i, e, m>>16&0xff+3)
					}
					lengths++
				case e&special == 0 || e&blockEnd == 0:
					t.Fatalf("%011b: entry %08x is not the end of a block", i, e)
				}
			}
			if int(e>>30) != literals || e&isMatch != 0 && want[len(want)-1]&isMatch == 0 {
				t.Fatalf("%011b: entry %08x has %d literals, not %d", i, e, e>>30, literals)
			}
			joined += len(want) - 1
		}
	}
	if joined < 1000 || lengths < 1000 {
		t.Errorf("only %d entries of two symbols and %d of lengths", joined, lengths)
	}
}

// TestPairs_TheSecondLevelHasItsPlace holds the bounds of the tables with codes as long as possible.
func TestPairs_TheSecondLevelHasItsPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var p pairs
	var table [litSize]uint32
	for range 500 {
		if !p.set(randomLengths(r, 286, 1+r.IntN(12))) {
			t.Fatal("the lengths form no code")
		}
		clear(table[:])
		p.build(&table)
		used := 0
		for i, e := range table {
			if e != 0 {
				used = i + 1
			}
		}
		if used > 1<<litBits+2*maxLits || bits.OnesCount(uint(litSize)) != 1 {
			t.Fatalf("%d entries", used)
		}
	}
}
