// Package postings reads the inverted index of a segment: the term dictionary of a field, and the documents and positions of each term.
// Text inverts a field again: it returns the terms of a document in order.
package postings

/*
Files of a segment with a per-field format (.tim terms, .doc documents and frequencies, .pos positions; .tmd the list of
fields since Lucene 8.6, which was at the end of .tim before; .tip an index of .tim, of which only the roots of tries are
read):

	dictionary  blocks of terms with a common prefix: blockWalker
	.doc        for each term: blocks of N documents, then the rest as variable-length integers: lists
	.pos        for each term: blocks of N positions, then the rest
*/

// layout describes the files of one generation.
type layout struct {
	dictionary dictionaryKind
	block      int  // N
	word       int  // width of the words that blocks are packed in, in bits; 0: Lucene 4 and 5
	patched    bool // blocks of documents have exceptions, as blocks of frequencies always do
	groups     bool // the documents after the last full block are in groups of four
	inline     bool // skip data lies between the blocks
	bitsets    bool // blocks of documents may be bitmaps
	widths     [2]int
}

type dictionaryKind uint8

const (
	dictionary4    dictionaryKind = iota // the list of fields is in .tim, plain headers
	dictionary5                          // index headers; since version 6 a .tmd, big-endian
	dictionary9                          // .tmd, little-endian
	dictionaryTrie                       // as 9; the root is in .tip
)

// bytesOrShorts are the maximum widths that are packed into 8 and 16 bits.
var bytesOrShorts = [2]int{8, 16}

// layouts are the formats by their names.
var layouts = map[string]layout{
	"Lucene41":      {dictionary: dictionary4, block: 128},
	"Lucene50":      {dictionary: dictionary5, block: 128},
	"Lucene84":      {dictionary: dictionary5, block: 128, word: 64, widths: bytesOrShorts},
	"Lucene90":      {dictionary: dictionary9, block: 128, word: 64, patched: true, widths: bytesOrShorts},
	"ES812Postings": {dictionary: dictionary9, block: 128, word: 64, patched: true, widths: bytesOrShorts},
	"Lucene99":      {dictionary: dictionary9, block: 128, word: 64, groups: true, widths: bytesOrShorts},
	"Lucene912":     {dictionary: dictionary9, block: 128, word: 64, groups: true, inline: true, widths: [2]int{4, 11}},
	"Lucene101":     {dictionary: dictionary9, block: 128, word: 32, groups: true, inline: true, bitsets: true, widths: [2]int{3, 10}},
	"Lucene103":     {dictionary: dictionaryTrie, block: 128, word: 32, groups: true, inline: true, bitsets: true, widths: [2]int{3, 10}},
	"Lucene104":     {dictionary: dictionaryTrie, block: 256, word: 32, groups: true, inline: true, bitsets: true, widths: bytesOrShorts},
}

// maxBlock is the maximum N.
const maxBlock = 256

// Known reports whether a per-field format can be read.
func Known(format string) bool {
	_, ok := layouts[format]
	return ok
}

// HasMeta reports whether the list of fields may be in a .tmd file.
func HasMeta(format string) bool { return layouts[format].dictionary >= dictionary5 }

// HasIndex reports whether a .tip file is needed.
func HasIndex(format string) bool { return layouts[format].dictionary == dictionaryTrie }

// Options are the index options of a field.
type Options struct {
	Positions, Offsets, Payloads bool
	Frequencies                  bool
}
