package repo

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// conditional is the part of a store that Objects need. Each call is one request.
type conditional interface {
	writer
	opener
	// putIf writes an object under the condition of Objects.Put.
	putIf(ctx context.Context, name string, body []byte, version string) (is string, err error)
	// names is Objects.List, with every name that the store lists.
	names(ctx context.Context, prefix, after string) (names, versions []string, more bool, err error)
	delete(ctx context.Context, name string) error
	// date returns the clock of the store from its response about an object that exists; the zero time if it states none.
	date(ctx context.Context, name string) (time.Time, error)
}

// Objects are objects below a prefix of a bucket that several processes change with conditional writes. Each call is one request,
// without retries.
type Objects struct {
	in  conditional
	max int64 // bytes of an object that Get accepts
}

const (
	// maxObject bounds an object of Objects, in bytes.
	maxObject = 32 << 20
	// objectTimeout bounds a request about a small object, response included.
	objectTimeout = 30 * time.Second
)

// UpTo returns the same objects, of at most max bytes each. The timeouts of Get and Put grow with the bytes.
func (o *Objects) UpTo(max int64) *Objects { return &Objects{o.in, max} }

// within returns a context for a request of at most size bytes.
func within(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	timeout := objectTimeout + time.Duration(max(0, size-maxObject)/slowestPut)*time.Second
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer for %v: %w", timeout, fault.ErrUnavailable))
}

// OpenObjects returns the Objects of a bucket or container without sending a request. Errors: fault.ErrConfig.
func OpenObjects(ctx context.Context, uri string, o Options) (*Objects, error) {
	in, err := openStore(ctx, uri, o)
	if err != nil {
		return nil, err
	}
	return &Objects{in, maxObject}, nil
}

// URI returns the URI of bucket and prefix.
func (o *Objects) URI() string { return o.in.URI() }

// Get returns an object and its version, or fs.ErrNotExist.
func (o *Objects) Get(ctx context.Context, name string) (body []byte, version string, err error) {
	if err := checkName(name); err != nil {
		return nil, "", err
	}
	rctx, cancel := within(ctx, o.max)
	defer cancel()
	a, err := o.in.ask(rctx, part{name: name, n: -1})
	if err != nil {
		return nil, "", err
	}
	defer a.body.Close()
	body, err = io.ReadAll(io.LimitReader(a.body, o.max+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, "", fmt.Errorf("get %s: %w", name, context.Cause(ctx))
	case err != nil:
		return nil, "", fmt.Errorf("get %s: the answer broke off: %w: %w", name, err, fault.ErrUnavailable)
	case int64(len(body)) > o.max:
		return nil, "", fault.Corrupt(name, "", o.max, "longer than the %d bytes that such an object may have", o.max)
	case a.version == "":
		return nil, "", fmt.Errorf("get %s: the store answers without an ETag: %w", name, fault.ErrConfig)
	}
	return body, a.version, nil
}

// Put writes an object if its version is still the given one, or with "" if it does not exist, and returns the new version.
// fs.ErrExist means that the condition did not hold and nothing was changed. fault.ErrUnavailable means that the outcome is
// unknown.
func (o *Objects) Put(ctx context.Context, name string, body []byte, version string) (is string, err error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	rctx, cancel := within(ctx, int64(len(body)))
	defer cancel()
	is, err = o.in.putIf(rctx, name, body, version)
	if err == nil && is == "" {
		return "", fmt.Errorf("put %s: the store answers without an ETag: %w", name, fault.ErrConfig)
	}
	return is, err
}

// List returns a page of the objects below a prefix whose names come after a name, in order of names, with their versions; more reports
// whether others follow.
func (o *Objects) List(ctx context.Context, prefix, after string) (names, versions []string, more bool, err error) {
	rctx, cancel := within(ctx, 0)
	defer cancel()
	all, of, more, err := o.in.names(rctx, prefix, after)
	if err != nil {
		return nil, nil, false, err
	}
	for i, name := range all {
		if checkName(name) != nil { // a folder created in a console
			continue
		}
		names, versions = append(names, name), append(versions, of[i])
	}
	if more && len(names) == 0 {
		return nil, nil, false, fmt.Errorf("list %s: the store answers with an empty page and announces more: %w", prefix, fault.ErrUnavailable)
	}
	return names, versions, more, nil
}

// Delete removes an object. A missing object is not an error.
func (o *Objects) Delete(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	rctx, cancel := within(ctx, 0)
	defer cancel()
	return o.in.delete(rctx, name)
}

// Date returns the clock of the store, in whole seconds, from the Date header of its response about an object that exists.
func (o *Objects) Date(ctx context.Context, name string) (time.Time, error) {
	if err := checkName(name); err != nil {
		return time.Time{}, err
	}
	rctx, cancel := within(ctx, 0)
	defer cancel()
	at, err := o.in.date(rctx, name)
	if err == nil && at.IsZero() {
		return at, fmt.Errorf("head %s: the store answers without its time (Date): %w", name, fault.ErrConfig)
	}
	return at, err
}
