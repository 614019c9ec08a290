package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// part is a request for n bytes of a blob at off, or up to the end if n < 0, in a version ("" for any).
type part struct {
	name    string
	off, n  int64
	version string
}

// header returns the value of the Range header; "" for the whole blob.
func (p part) header() string {
	switch {
	case p.n > 0:
		return fmt.Sprintf("bytes=%d-%d", p.off, p.off+p.n-1)
	case p.off > 0:
		return fmt.Sprintf("bytes=%d-", p.off)
	}
	return ""
}

// answer is the response of a store to a part.
type answer struct {
	body    io.ReadCloser
	length  int64  // bytes of body; -1 if not stated
	ranged  string // Content-Range; "" if the body is the whole blob
	version string // of the blob; "" if the store states none
}

// opener is the part of a store that openPart needs.
type opener interface {
	// ask makes one request. The body is read under the same context.
	ask(ctx context.Context, p part) (answer, error)
}

// openPart streams a part of a blob, by one request. A body that stalls is cancelled.
func openPart(ctx context.Context, store opener, p part, stall time.Duration) (io.ReadCloser, string, error) {
	if err := checkName(p.name); err != nil {
		return nil, "", err
	}
	if p.n == 0 {
		return io.NopCloser(strings.NewReader("")), p.version, nil
	}
	rctx, cancel := context.WithCancel(ctx)
	a, err := store.ask(rctx, p)
	if err != nil {
		cancel()
		return nil, "", err
	}
	if err := p.check(a); err != nil {
		cancel() // closing alone would first read the rest
		a.body.Close()
		return nil, "", err
	}
	have, total, skip := a.length, a.length, int64(0)
	if a.ranged != "" {
		_, total = contentRange(a.ranged)
	} else if p.header() != "" { // the whole object
		skip = p.off
		if have -= p.off; p.n > 0 {
			have = p.n
		}
	}
	body := &stallGuard{ReadCloser: a.body, name: p.name, ctx: ctx, cancel: cancel, timer: time.AfterFunc(stall, cancel), stall: stall}
	body.timer.Stop()
	if _, err := io.CopyN(io.Discard, body, skip); err != nil {
		return nil, "", errors.Join(fmt.Errorf("blob %s: the answer broke off before byte %d: %s: %w", p.name, p.off, err.Error(), fault.ErrUnavailable), body.Close())
	}
	return &exact{ReadCloser: body, left: have, total: total, short: func(left int64) error {
		return fmt.Errorf("blob %s: the answer broke off with %d bytes missing: %w", p.name, left, fault.ErrUnavailable)
	}}, a.version, nil
}

// maxSkip is the maximum number of bytes of a whole object to read and drop, if a store answers a range request with the whole object.
const maxSkip = 16 << 20

// suspect is a response that does not contain the requested range. The store or an intermediary may be at fault, so the request is repeated
// before err is attributed to the object.
type suspect struct{ err error }

func (s *suspect) Error() string { return s.err.Error() }
func (s *suspect) Unwrap() error { return s.err }

// check compares the headers of the response with the request. Its error may be a *suspect.
func (p part) check(a answer) error {
	asked := p.header() != ""
	switch {
	case p.version != "" && a.version != p.version:
		return fault.Corrupt(p.name, "", p.off, "the object changed while it was read (ETag %s, then %s)", p.version, a.version)
	case a.length < 0:
		return fmt.Errorf("blob %s: the store answered without a length: %w", p.name, fault.ErrUnavailable)
	case asked && a.ranged == "": // the whole object, or its existing part
		if a.length < p.off+max(p.n, 0) {
			return &suspect{fault.Corrupt(p.name, "", a.length, "the object ends %d bytes early", p.off+max(p.n, 0)-a.length)}
		}
		if p.off > maxSkip {
			return &suspect{fmt.Errorf("blob %s: the store answered with the whole object of %d bytes to a range from byte %d on; it must support range requests: %w", p.name, a.length, p.off, fault.ErrConfig)}
		}
		return nil
	case asked:
		if from, _ := contentRange(a.ranged); from != p.off {
			return &suspect{fault.Corrupt(p.name, "", p.off, "the store answered with the range %q to one from byte %d on", a.ranged, p.off)}
		}
	}
	switch {
	case p.n > 0 && a.length < p.n: // the object ends before the range does
		return &suspect{fault.Corrupt(p.name, "", p.off+a.length, "the object ends %d bytes early", p.n-a.length)}
	case p.n > 0 && a.length > p.n:
		return &suspect{fmt.Errorf("blob %s: the store answered %d bytes to a range of %d; it must support range requests: %w", p.name, a.length, p.n, fault.ErrConfig)}
	}
	return nil
}

// contentRange parses the first byte and the length of the object from "bytes 0-9/1000"; -1 for a missing number.
func contentRange(s string) (from, total int64) {
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return -1
		}
		return n
	}
	part, length, _ := strings.Cut(strings.TrimPrefix(s, "bytes "), "/")
	first, _, _ := strings.Cut(part, "-")
	return number(first), number(length)
}

// stallGuard cancels a Read that returns no byte for too long. Time between two calls of Read does not count.
type stallGuard struct {
	io.ReadCloser
	name   string          // of the blob
	ctx    context.Context // the caller's
	cancel context.CancelFunc
	timer  *time.Timer
	stall  time.Duration
}

func (g *stallGuard) Read(p []byte) (int, error) {
	g.timer.Reset(g.stall)
	n, err := g.ReadCloser.Read(p)
	g.timer.Stop()
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case g.ctx.Err() != nil:
		return n, fmt.Errorf("read body: %w", context.Cause(g.ctx))
	}
	// The text alone: readers take an io.ErrUnexpectedEOF for the end of the blob.
	return n, fmt.Errorf("blob %s: the answer broke off: %s; check the network on the way to the store: %w", g.name, err.Error(), fault.ErrUnavailable)
}

func (g *stallGuard) Close() error {
	g.timer.Stop()
	g.cancel() // else closing would wait for the rest of the body
	return g.ReadCloser.Close()
}
