package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
)

// RetryPolicy bounds the repetition of requests that failed with fault.ErrUnavailable.
type RetryPolicy struct {
	Tries int           // in a row without a byte; 0 means 10, some 20 s in all
	First time.Duration // longest first pause; 0 means 100 ms; doubles, with full jitter
	Max   time.Duration // longest pause; 0 means 20 s
	// Sleep waits; nil means a timer. A parameter so that tests do not wait.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Retrying repeats requests of a repository that is not always there. A body that
// breaks off is gone on with at the byte where it broke.
type Retrying struct {
	Repository
	policy   RetryPolicy
	answered atomic.Bool // it was there before, so that it will be again
}

// firstTries limits the tries for a repository that was never reached: its address may be wrong.
const firstTries = 3

// again pauses before try number n, or returns the error.
func (r *Retrying) again(ctx context.Context, n int, err error) error {
	p := r.policy
	if !errors.Is(err, errUnreachable) {
		r.answered.Store(true)
	} else if !r.answered.Load() {
		p.Tries = min(p.Tries, firstTries)
	}
	return p.again(ctx, n, err)
}

// NewRetrying decorates r.
func NewRetrying(r Repository, p RetryPolicy) *Retrying {
	return &Retrying{Repository: r, policy: p.filled()}
}

// filled returns the options with defaults for missing values.
func (p RetryPolicy) filled() RetryPolicy {
	if p.Tries == 0 {
		p.Tries = 10
	}
	if p.First == 0 {
		p.First = 100 * time.Millisecond
	}
	if p.Max == 0 {
		p.Max = 20 * time.Second
	}
	if p.Sleep == nil {
		p.Sleep = wait.For
	}
	return p
}

// again pauses before attempt number n (from 1) or returns the error.
func (p RetryPolicy) again(ctx context.Context, n int, err error) error {
	if !errors.Is(err, fault.ErrUnavailable) {
		return err
	}
	if n >= p.Tries {
		return fmt.Errorf("after %d tries: %w", n, err)
	}
	return p.pause(ctx, n, err)
}

// pause waits before attempt number n (from 1), and returns err with the reason if that is not possible.
func (p RetryPolicy) pause(ctx context.Context, n int, err error) error {
	longest := min(p.First<<min(n-1, 20), p.Max)
	if serr := p.Sleep(ctx, rand.N(longest)+1); serr != nil {
		return errors.Join(serr, err)
	}
	return nil
}

// suspectTries limits the repetitions for a range whose answer is complete but not the requested one, and a blob whose answer
// is empty.
const suspectTries = 3

// Open opens, and later continues with, a part of a blob.
func (r *Retrying) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	rc, _, err := r.openVersion(ctx, name, off, n, "")
	return rc, err
}

func (r *Retrying) openVersion(ctx context.Context, name string, off, n int64, version string) (io.ReadCloser, string, error) {
	s := &resuming{ctx: ctx, r: r, name: name, off: off, left: n, total: -1, version: version}
	if err := s.open(); err != nil {
		return nil, "", err
	}
	return s, s.version, nil
}

// Stat asks until it is answered.
func (r *Retrying) Stat(ctx context.Context, name string) (int64, error) {
	for n := 1; ; n++ {
		size, err := r.Repository.Stat(ctx, name)
		if err == nil {
			r.answered.Store(true)
			return size, nil
		}
		if err := r.again(ctx, n, err); err != nil {
			return 0, err
		}
	}
}

// List starts again when a page fails, without the blobs that were already listed.
func (r *Retrying) List(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		given := map[string]bool{}
		for n := 1; ; n++ {
			var failed error
			for blob, err := range r.Repository.List(ctx, prefix) {
				if err != nil {
					failed = err
					break
				}
				if given[blob.Name] {
					continue
				}
				given[blob.Name] = true
				r.answered.Store(true)
				n = 1
				if !yield(blob, nil) {
					return
				}
			}
			if failed == nil {
				return
			}
			if err := r.again(ctx, n, failed); err != nil {
				yield(Blob{}, err)
				return
			}
		}
	}
}

// resuming is a body that survives breaks.
type resuming struct {
	ctx     context.Context
	r       *Retrying
	name    string
	off     int64
	left    int64  // -1: to the end
	total   int64  // of the blob; -1 when unknown
	version string // of the blob, from the first answer on
	tries   int    // since the last byte
	doubts  int    // answers other than the requested range
	cur     io.ReadCloser
	err     error // permanently
}

// Total returns the length of the blob.
func (s *resuming) Total() int64 { return s.total }

func (s *resuming) open() error {
	for {
		rc, version, err := openVersion(s.ctx, s.r.Repository, s.name, s.off, s.left, s.version)
		if err == nil {
			s.r.answered.Store(true)
			if total, ok := Total(rc); ok && total == 0 && s.left < 0 && s.doubts < suspectTries { // no blob of a repository is empty
				rc.Close()
				s.doubts++
				if err := s.r.policy.pause(s.ctx, s.doubts, nil); err != nil {
					return err
				}
				continue
			}
			s.cur, s.version = rc, version
			if n, ok := Total(rc); ok {
				s.total = n
				if s.left < 0 {
					s.left = max(n-s.off, 0)
				}
			}
			return nil
		}
		var odd *suspect
		if errors.As(err, &odd) {
			if s.doubts++; s.doubts > suspectTries {
				return odd.err
			}
			if err := s.r.policy.pause(s.ctx, s.doubts, err); err != nil {
				return err
			}
			continue
		}
		s.tries++
		if err := s.r.again(s.ctx, s.tries, err); err != nil {
			return err
		}
	}
}

func (s *resuming) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	for {
		n, err := s.cur.Read(p)
		s.off += int64(n)
		if s.left > 0 {
			s.left -= int64(n)
		}
		if s.left == 0 && n > 0 { // everything arrived, even if the connection broke
			return n, nil
		}
		if n > 0 {
			s.tries = 0
			if errors.Is(err, fault.ErrUnavailable) {
				err = nil // the next Read meets it again
			}
			return n, err
		}
		if err == nil || !errors.Is(err, fault.ErrUnavailable) {
			return n, err
		}
		s.tries++
		if err := s.r.again(s.ctx, s.tries, err); err != nil {
			return 0, err
		}
		s.cur.Close()
		s.cur = nil
		if err := s.open(); err != nil {
			s.err = err
			return 0, err
		}
	}
}

func (s *resuming) Close() error {
	if s.cur == nil {
		return nil
	}
	return s.cur.Close()
}
