package repo

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/base/wait"
)

// Retrying retries requests of a repository that is temporarily unavailable. A body that breaks is resumed at the byte where it broke.
type Retrying struct {
	Repository
	policy   retry.Policy
	answered atomic.Bool // it answered before, so it is expected to answer again
}

// firstTries limits the attempts for a repository that never answered: its address may be wrong.
const firstTries = 3

// again waits before the next attempt, or returns the error.
func (r *Retrying) again(ctx context.Context, s *retry.Series, err error) error {
	s.Tries = r.policy.Tries
	if !errors.Is(err, errUnreachable) {
		r.answered.Store(true)
	} else if !r.answered.Load() {
		s.Tries = min(s.Tries, firstTries)
	}
	return s.Again(ctx, err)
}

// NewRetrying returns a decorator of r. The defaults of a policy are 10 consecutive attempts without a byte, some 20 s in all, and back-off
// with full jitter of up to 100 ms, later up to 20 s.
func NewRetrying(r Repository, p retry.Policy) *Retrying {
	return &Retrying{Repository: r, policy: withDefaults(p)}
}

func withDefaults(p retry.Policy) retry.Policy {
	p.Tries, p.First, p.Max = cmp.Or(p.Tries, 10), cmp.Or(p.First, 100*time.Millisecond), cmp.Or(p.Max, 20*time.Second)
	if p.Sleep == nil {
		p.Sleep = wait.For
	}
	if p.Jitter == nil {
		p.Jitter = retry.Full
	}
	return p
}

// suspectTries limits the retries for a range whose response is complete but not the requested range, and for a blob whose response is
// empty.
const suspectTries = 3

// Open opens a part of a blob; the stream resumes it after errors.
func (r *Retrying) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	rc, _, err := r.openVersion(ctx, name, off, n, "")
	return rc, err
}

func (r *Retrying) openVersion(ctx context.Context, name string, off, n int64, version string) (io.ReadCloser, string, error) {
	s := &resuming{ctx: ctx, r: r, name: name, off: off, left: n, total: -1, version: version, tries: r.policy.Start()}
	if err := s.open(); err != nil {
		return nil, "", err
	}
	return s, s.version, nil
}

// Stat returns the size of a blob, with retries.
func (r *Retrying) Stat(ctx context.Context, name string) (int64, error) {
	for tries := r.policy.Start(); ; {
		size, err := r.Repository.Stat(ctx, name)
		if err == nil {
			r.answered.Store(true)
			return size, nil
		}
		if err := r.again(ctx, &tries, err); err != nil {
			return 0, err
		}
	}
}

// List restarts the listing when a page fails, and skips the blobs that were already yielded.
func (r *Retrying) List(ctx context.Context, prefix string) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		given := map[string]bool{}
		for tries := r.policy.Start(); ; {
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
				tries.Reset()
				if !yield(blob, nil) {
					return
				}
			}
			if failed == nil {
				return
			}
			if err := r.again(ctx, &tries, failed); err != nil {
				yield(Blob{}, err)
				return
			}
		}
	}
}

// resuming is a body that resumes after errors.
type resuming struct {
	ctx     context.Context
	r       *Retrying
	name    string
	off     int64
	left    int64        // -1: to the end
	total   int64        // of the blob; -1 if unknown
	version string       // of the blob, from the first answer on
	tries   retry.Series // since the last byte
	doubts  int          // answers other than the requested range
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
				if err := s.doubt(nil); err != nil {
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
			if s.doubts == suspectTries {
				return odd.err
			}
			if err := s.doubt(err); err != nil {
				return err
			}
			continue
		}
		if err := s.r.again(s.ctx, &s.tries, err); err != nil {
			return err
		}
	}
}

// doubt waits before a blob with a suspect response is requested again. err is the reason, if there is an error.
func (s *resuming) doubt(err error) error {
	s.doubts++
	if serr := s.r.policy.Sleep(s.ctx, s.r.policy.Pause(s.doubts)); serr != nil {
		return errors.Join(serr, err)
	}
	return nil
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
			s.tries.Reset()
			if errors.Is(err, fault.ErrUnavailable) {
				err = nil // the next Read returns it again
			}
			return n, err
		}
		if err == nil || !errors.Is(err, fault.ErrUnavailable) {
			return n, err
		}
		if err := s.r.again(s.ctx, &s.tries, err); err != nil {
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
