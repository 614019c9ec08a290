package target

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Constants of encodings.
const (
	measuredBytes = 64 << 10 // minimum length of a measured body
	trialBodies   = 4        // bodies of a trial of the other form
	firstPeriod   = 32       // bodies between two trials, doubled up to lastPeriod while the form stays the same
	lastPeriod    = 512
	worthwhile    = 1.1 // minimum ratio of the throughputs, compressed to plain, for compression
)

// encodings decides by the measured throughput whether bodies are compressed. Compressed bodies arrive faster if the network is
// the limit; otherwise compression wastes CPU time of this process and the target. It starts with compressed bodies, and tries
// the other form from time to time. It is safe for concurrent use; the zero value is ready.
type encodings struct {
	mu       sync.Mutex
	plain    bool             // current form
	trying   bool             // a trial of the other form is in progress
	begun    int              // measured bodies since the last trial started or ended
	period   int              // bodies until the next trial
	measured [2]encodingRates // compressed, plain: the last trialBodies of each
}

// encodingRates holds the measurements of bodies sent in one form.
type encodingRates struct {
	bytes int64 // before compression
	spent time.Duration
}

func (r encodingRates) rate() float64 { return float64(r.bytes) / max(r.spent.Seconds(), 1e-9) }

// choose reports whether to compress the next body. The caller calls end with the body's length once the response has
// arrived, unless the body was not accepted completely.
func (e *encodings) choose() (compressed bool, end func(length int)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	plain, begin := e.plain != e.trying, time.Now()
	return !plain, func(length int) {
		if length >= measuredBytes {
			e.end(plain, length, time.Since(begin))
		}
	}
}

func (e *encodings) end(plain bool, length int, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if plain != (e.plain != e.trying) {
		return // the body was sent before the form changed
	}
	form := 0
	if plain {
		form = 1
	}
	e.begun++
	if e.trying || e.begun > e.period-trialBodies { // older measurements may be from another load
		m := &e.measured[form]
		m.bytes, m.spent = m.bytes+int64(length), m.spent+took
	}
	switch {
	case !e.trying && e.begun >= max(e.period, trialBodies):
		e.trying, e.begun = true, 0
	case e.trying && e.begun >= trialBodies:
		was := e.plain
		e.plain = e.measured[0].rate() < worthwhile*e.measured[1].rate()
		e.period = min(max(2*e.period, firstPeriod), lastPeriod)
		if e.plain != was {
			e.period = firstPeriod
		}
		e.trying, e.begun, e.measured = false, 0, [2]encodingRates{}
	}
}

// squeezer compresses bodies, and removes their index names, one body at a time.
type squeezer struct {
	buf     bytes.Buffer
	w       *gzip.Writer
	unnamed []byte // of appendUnnamed
}

func (c *Client) squeezer() *squeezer {
	if s, ok := c.gzips.Get().(*squeezer); ok {
		return s
	}
	s := &squeezer{}
	s.w, _ = gzip.NewWriterLevel(&s.buf, gzip.BestSpeed) // the level is valid
	return s
}

// pack returns the compressed body, which is valid until the next call.
func (s *squeezer) pack(body []byte) ([]byte, error) {
	s.buf.Reset()
	s.w.Reset(&s.buf)
	if _, err := s.w.Write(body); err != nil {
		return nil, fmt.Errorf("compress bulk body: %w", err)
	}
	if err := s.w.Close(); err != nil {
		return nil, fmt.Errorf("compress bulk body: %w", err)
	}
	return s.buf.Bytes(), nil
}
