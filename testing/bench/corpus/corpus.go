// Package corpus generates the documents of the benchmark: synthetic, realistic in shape and repetition, and the same on every machine.
package corpus

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Kind is a kind of documents.
type Kind string

// Kinds of documents.
const (
	Mixed Kind = "mixed" // a quarter access logs, three quarters orders, 0.9 KB on average
	Logs  Kind = "logs"  // log lines of 324 bytes on average
	Tiny  Kind = "tiny"  // counters of 39 bytes
	Wide  Kind = "wide"  // batches of orders, 4 KB on average
	Long  Kind = "long"  // texts of 1 MB
	Giant Kind = "giant" // texts of 100 MB

	// Kinds that compress like documents of users: with DEFLATE about 2 : 1, 4 : 1 and 10 : 1.
	Orders   Kind = "orders"   // orders of ids and numbers, 0.9 KB on average
	Articles Kind = "articles" // texts in eight languages, 3.1 KB on average
	Events   Kind = "events"   // records of containers' logs, 1.1 KB on average
)

// usual is the number of documents of each kind in a benchmark: about 200 MB, three for Giant.
var usual = map[Kind]int{Mixed: 220_000, Logs: 650_000, Tiny: 1_000_000, Wide: 50_000, Long: 200, Giant: 3,
	Orders: 220_000, Articles: 75_000, Events: 180_000}

// Usual returns the number of documents of a kind that are measured; 0 for an unknown kind.
func (k Kind) Usual() int { return usual[k] }

// Corpus is a sequence of documents. Document i depends only on the kind and on i. It is not safe for concurrent use.
type Corpus struct {
	kind  Kind
	words []string
	zipf  *rand.Zipf
	pcg   *rand.PCG
	r     *rand.Rand

	tongues []language // of articles
}

const (
	vocabulary = 4000
	// epoch is 2024-01-01T00:00:00Z in milliseconds.
	epoch = 1704067200000
)

// New returns the corpus of a kind.
func New(kind Kind) (*Corpus, error) {
	if kind.Usual() == 0 {
		return nil, fmt.Errorf("no such corpus: %q (there are %q)", kind, slices.Sorted(maps.Keys(usual)))
	}
	pcg := rand.NewPCG(1, 1)
	c := &Corpus{kind: kind, pcg: pcg, r: rand.New(pcg)}
	for range vocabulary {
		c.words = append(c.words, c.invent())
	}
	c.zipf = rand.NewZipf(c.r, 1.05, 8, vocabulary-1)
	if kind == Articles {
		c.languages()
	}
	return c, nil
}

// invent returns a pronounceable word.
func (c *Corpus) invent() string {
	word := make([]byte, 4+c.r.IntN(7))
	for i := range word {
		letters := "bcdfghklmnprstvz"
		if i%2 == 1 {
			letters = "aeiou"
		}
		word[i] = letters[c.r.IntN(len(letters))]
	}
	return string(word)
}

// Append appends document i as one line of JSON without a line break. Another revision of a document is another document with the same id.
func (c *Corpus) Append(dst []byte, i, revision int) []byte {
	c.pcg.Seed(uint64(i)+1, uint64(revision)+1)
	switch {
	case c.kind == Logs:
		return c.logLine(dst, i)
	case c.kind == Tiny:
		return c.counter(dst, i)
	case c.kind == Wide:
		return c.batch(dst, i, revision)
	case c.kind == Long:
		return c.letter(dst, i, 1_000_000)
	case c.kind == Giant:
		return c.letter(dst, i, 100_000_000)
	case c.kind == Orders:
		return c.purchase(dst, i)
	case c.kind == Articles:
		return c.article(dst, i)
	case c.kind == Events:
		return c.event(dst, i)
	case i%4 == 0:
		return c.access(dst, i)
	default:
		return c.order(dst, i, revision)
	}
}

// word returns a word of the vocabulary, common ones more often.
func (c *Corpus) word() string { return c.words[c.zipf.Uint64()] }

func (c *Corpus) text(dst []byte, n int) []byte {
	for j := range n {
		if j > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, c.word()...)
	}
	return dst
}

func (c *Corpus) stamp(dst []byte, i, stepMillis int) []byte {
	t := time.UnixMilli(epoch + int64(i)*int64(stepMillis) + int64(c.r.IntN(stepMillis))).UTC()
	return t.AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}

func (c *Corpus) oneOf(choices ...string) string { return choices[c.r.IntN(len(choices))] }

// hexID appends n random hexadecimal digits.
func (c *Corpus) hexID(dst []byte, n int) []byte {
	const digits = "0123456789abcdef"
	for range n {
		dst = append(dst, digits[c.r.IntN(16)])
	}
	return dst
}

// money appends an amount below limit with two decimals.
func (c *Corpus) money(dst []byte, limit int) []byte {
	return strconv.AppendFloat(dst, float64(c.r.IntN(limit*100))/100, 'f', 2, 64)
}
