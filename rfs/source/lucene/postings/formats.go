// Package postings reads the inverted index of a segment: the dictionary of terms of a field, and in which documents and
// at which positions each term is. It turns a field around: Text returns the terms of a document in their order.
package postings

/*
Files of a segment with a per-field format (.tim terms, .doc documents and frequencies, .pos positions; .tmd what fields
there are, since Lucene 8.6; before, that lies at the end of .tim; .tip an index of .tim, of which only the roots of tries
are read):

	dictionary  blocks of terms with a common prefix: blockWalker
	.doc        for each term: blocks of N documents, then the rest as variable-length integers: lists
	.pos        for each term: blocks of N positions, then the rest
*/

// layout describes how a generation lays out the files.
type layout struct {
	dictionary dictionaryKind
	block      int  // N
	word       int  // bits of the words that blocks are packed in; 0: Lucene 4 and 5
	patched    bool // blocks of documents have exceptions, as blocks of frequencies do
	groups     bool // the rest of the documents is in groups of four
	inline     bool // skip data lies between the blocks
	bitsets    bool // blocks of documents may be bitmaps
	widths     [2]int
}

type dictionaryKind uint8

const (
	dictionary4    dictionaryKind = iota // what fields there are lies in .tim, plain headers
	dictionary5                          // index headers; since version 6 a .tmd, big-endian
	dictionary9                          // .tmd, little-endian
	dictionaryTrie                       // as 9; the root is in .tip
)

// bytesOrShorts are the greatest widths that are packed as bytes and as 16 bits.
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

// maxBlock is the greatest N.
const maxBlock = 256

// Known reports whether a per-field format can be read.
func Known(format string) bool {
	_, ok := layouts[format]
	return ok
}

// HasMeta reports whether the fields of a dictionary may lie in a .tmd file.
func HasMeta(format string) bool { return layouts[format].dictionary >= dictionary5 }

// HasIndex reports whether a .tip file is needed.
func HasIndex(format string) bool { return layouts[format].dictionary == dictionaryTrie }

// Options are the index options of a field.
type Options struct {
	Positions, Offsets, Payloads bool
	Frequencies                  bool
}
