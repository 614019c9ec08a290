package rebuild

import (
	"bytes"
	"context"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// analyzed is text rebuilt from the terms of the inverted index: the output of the analyzer, in the order of positions, with a space
// between two terms. What the analyzer dropped (case, punctuation, stop words, endings) is lost.
type analyzed struct {
	text *lucene.Text
	gap  int32 // a larger distance of positions starts the next value of an array; 0: unknown
}

func (l analyzed) load(ctx context.Context, s *segment, out *values) error {
	tokens, err := l.text.Tokens(ctx, s.doc)
	if err != nil || len(tokens) == 0 {
		return err
	}
	var value []byte
	last := int32(-1)
	flush := func() error {
		if err := out.next(); err != nil {
			return err
		}
		out.b = appendUTF8(out.b, value)
		value = value[:0]
		return fits(len(out.b), out.most)
	}
	for i := 0; i < len(tokens); {
		term, at := tokens[i].Term, tokens[i].Position
		for ; i < len(tokens) && tokens[i].Position == at; i++ { // parts and synonyms: the longest is the most likely to hold the others
			if len(tokens[i].Term) > len(term) {
				term = tokens[i].Term
			}
		}
		if l.gap > 0 && last >= 0 && at-last > l.gap {
			if err := flush(); err != nil {
				return err
			}
		}
		if len(value) > 0 {
			value = append(value, ' ')
		}
		value, last = append(value, term...), at
		if err := fits(len(out.b)+len(value), out.most); err != nil {
			return err
		}
	}
	return flush()
}

// analyzed reports whether a field is text with indexed terms and positions.
func (n *node) analyzed() bool {
	index := string(bytes.Trim(n.params.Index, `"`))
	switch {
	case n.kind != "text" && n.kind != "string":
		return false
	case index == "no" || index == "false" || index == "not_analyzed":
		return false
	}
	options := string(n.params.IndexOptions)
	return options != `"docs"` && options != `"freqs"`
}

// gap returns the number of positions between two values of a text; 0 if it is unknown.
func (n *node) gap(created int64) int32 {
	const version2 = 2_00_00_00
	switch {
	case n.params.PositionGap != nil:
		return int32(min(max(*n.params.PositionGap, 0), 1<<30))
	case created > 0 && created < version2:
		return 0
	}
	return 100
}

// texts returns the number of fields that are read as terms.
func (r *Rebuilder) texts() (n int) {
	for _, p := range r.places {
		if p.terms {
			n++
		}
	}
	return n
}
