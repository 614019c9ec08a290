//go:build unix

package inflate_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/source/lucene/inflate"
	"github.com/rfsd/rfsd/testing/bench/corpus"
)

// The layout of the high compression of Lucene 8.7 and later: units of 480 KiB, cut into a dictionary of a sixtieth and ten blocks,
// each a stream of its own of level 6.
const (
	unitLen   = 480 << 10
	dictShare = 60
	blocks    = 10
)

// stream is a block of a unit. Its dictionary is the content of another stream of the unit.
type stream struct{ dict, src []byte }

// unit returns the streams of a unit of documents from document first on, and how many documents they hold. The dictionary comes
// first.
func unit(tb testing.TB, c *corpus.Corpus, first int) (streams []stream, lengths []int, docs int) {
	var raw []byte
	for ; len(raw) < unitLen; docs++ {
		raw = c.Append(raw, first+docs, 0)
	}
	dict := raw[:len(raw)/dictShare]
	streams, lengths = append(streams, stream{nil, deflated(tb, dict, nil, 6)}), append(lengths, len(dict))
	size := (len(raw) - len(dict) + blocks - 1) / blocks
	for at := len(dict); at < len(raw); at += size {
		p := raw[at:min(at+size, len(raw))]
		streams, lengths = append(streams, stream{dict, deflated(tb, p, dict, 6)}), append(lengths, len(p))
	}
	return streams, lengths, docs
}

// cpuTime returns what this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkUnits decodes the units of a stored-field file of users' documents: 20 different ones, because a processor learns the
// branches of a single block. The rate is of raw bytes.
func BenchmarkUnits(b *testing.B) {
	for _, kind := range []corpus.Kind{corpus.Orders, corpus.Articles, corpus.Events, corpus.Mixed} {
		b.Run(string(kind), func(b *testing.B) {
			c, err := corpus.New(kind)
			if err != nil {
				b.Fatal(err)
			}
			var streams []stream
			var lengths []int
			raw, compressed := 0, 0
			for first, n := 0, 0; n < 20; n++ {
				s, l, docs := unit(b, c, first)
				streams, lengths, first = append(streams, s...), append(lengths, l...), first+docs
			}
			for i, s := range streams {
				raw, compressed = raw+lengths[i], compressed+len(s.src)
			}
			var d inflate.Decoder
			buf := make([]byte, unitLen)
			began, rounds := cpuTime(b), 0
			for ; b.Loop(); rounds++ {
				for i, s := range streams {
					n := copy(buf, s.dict)
					if err := d.Decode(buf[:n+lengths[i]], n, s.src); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(rounds)*float64(raw)/1e6/(cpuTime(b)-began).Seconds(), "MB/cpu-s")
			b.ReportMetric(float64(raw)/float64(compressed), "ratio")
		})
	}
}
