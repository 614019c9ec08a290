package inflate

// pairs builds the table of literals and lengths from the code that was set.
type pairs struct {
	codes
	// seconds are the literals and complete lengths that fit after a literal, grouped by their number of bits: seconds[start[n]:start[n+1]]
	// have n bits, and seconds[start[n]:lits[n]] are literals.
	seconds [2 * maxLits]second
	start   [litBits + 2]int
	lits    [litBits + 1]int
}

// second is a symbol after a literal: its bits, and what it adds to the entry.
type second struct{ bits, add uint32 }

// build builds the table. For each number of bits n the first level doubles, then gets the entries of n bits, with one symbol or two. No
// entry is a prefix of another, so the size of the level bounds the number of entries.
func (p *pairs) build(table *[litSize]uint32) {
	if !p.complete() {
		fill(table[:1<<litBits], special)
	}
	var extendedLengths [maxLits - 256]second // of the bits of the code
	code, next, filled, free, waiting := 0, 0, 1, 0, 0
	for n := 1; n <= litBits; n++ {
		code <<= 1
		filled = double(table[:], filled, n)
		p.start[n], p.lits[n] = free, free
		for _, s := range p.sorted[next : next+p.count[n]] {
			rev, meaning := uint32(reverse(code, n)), litMeaning[s]
			code++
			switch {
			case s < 256:
				p.seconds[free] = second{rev, literal | uint32(s)<<16 | uint32(n)}
				free++
				p.lits[n] = free
			case meaning&isMatch != 0:
				p.seconds[free] = second{rev, meaning | uint32(n)}
				free++
			case meaning&extended != 0 && n+int(meaning&63) <= litBits:
				extendedLengths[waiting] = second{rev, meaning + uint32(n)<<8}
				waiting++
				continue
			}
			table[rev&(1<<litBits-1)] = entry(meaning, n)
		}
		next += p.count[n]
		for _, x := range extendedLengths[:waiting] {
			own := int(x.add >> 8 & 15)
			if extra := int(x.add & 63); own+extra == n {
				for v := range uint32(1) << extra {
					s := second{x.bits | v<<own, isMatch | x.add&(0xff<<16) + v<<16 | uint32(n)}
					table[s.bits&(1<<litBits-1)] = s.add
					p.seconds[free] = s
					free++
				}
			}
		}
		p.start[n+1] = free
		p.join(table, n)
	}
	buildSecond(table[:], litMeaning[:], &p.codes, next, code, litBits, special|leadsOn)
}

// join adds the entries of n bits that hold a literal and a second symbol.
func (p *pairs) join(table *[litSize]uint32, n int) {
	for k := 1; k < n; k++ {
		seconds := p.seconds[p.start[n-k]:p.start[n-k+1]]
		if len(seconds) == 0 {
			continue
		}
		for _, first := range p.seconds[p.start[k]:p.lits[k]] {
			e := literal | first.add>>8&0xff00 | uint32(k)
			for _, s := range seconds {
				table[(first.bits|s.bits<<k)&(1<<litBits-1)] = e + s.add
			}
		}
	}
}
