// Package fault defines the categories of all errors of rfsd.
//
// A category decides what the caller does: damage is reported and never retried, a lost lease stops the work, a rejection by the target
// concerns one document or request permanently, an unavailable peer is asked again. Errors wrap a category with %w and are tested with
// errors.Is.
package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/rfsd/rfsd/rfs/base/secret"
)

var (
	// ErrCorrupt means that bytes of the repository are damaged. Never retried.
	ErrCorrupt = errors.New("corrupt")
	// ErrUnsupported means an intact form that rfsd does not support; the message has the remedy.
	ErrUnsupported = errors.New("unsupported")
	// ErrLeaseLost means that another worker holds the work item, or that the lease has expired. Stop immediately.
	ErrLeaseLost = errors.New("lease lost")
	// ErrRejected means that the target rejects a request, and would reject it again. Permanent.
	ErrRejected = errors.New("rejected by target")
	// ErrUnavailable means that the peer cannot answer now. Retried with backoff.
	ErrUnavailable = errors.New("unavailable")
	// ErrConfig means that the user has to change an option, a permission or a name before a new run.
	ErrConfig = errors.New("configuration")
	// ErrNoBucket means that a bucket does not exist, or no longer. It is an ErrConfig.
	ErrNoBucket = fmt.Errorf("the bucket does not exist: %w", ErrConfig)
)

// Damage identifies damaged bytes of the repository. It is an ErrCorrupt.
type Damage struct {
	Blob   string // blob in the repository, relative to its root; "" if not yet known
	File   string // Lucene file or part of a metadata blob; "" for the blob itself
	Offset int64  // byte offset in File (in Blob if File is ""); -1 for the whole
	Err    error  // the cause
}

// Error returns blob, file and offset, then the cause. If one Damage wraps another, the inner location applies, and the outer one fills in
// missing fields.
func (d *Damage) Error() string {
	for inner, ok := d.Err.(*Damage); ok; inner, ok = d.Err.(*Damage) { //nolint:errorlint // only the direct cause is merged
		merged := *inner
		if merged.Blob == "" {
			merged.Blob = d.Blob
		}
		if merged.File == "" {
			merged.File = d.File
		}
		if merged.Offset < 0 {
			merged.Offset = d.Offset
		}
		d = &merged
	}
	var b strings.Builder
	b.WriteString("corrupt")
	if d.Blob != "" {
		fmt.Fprintf(&b, " blob %s", d.Blob)
	}
	if d.File != "" {
		fmt.Fprintf(&b, " file %s", d.File)
	}
	if d.Offset >= 0 {
		fmt.Fprintf(&b, " at offset %d", d.Offset)
	}
	if d.Err != nil {
		b.WriteString(": ")
		b.WriteString(d.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (d *Damage) Unwrap() error { return d.Err }

// Is makes every Damage an ErrCorrupt.
func (d *Damage) Is(target error) bool { return target == ErrCorrupt }

// Corrupt returns a Damage at an offset of a blob or Lucene file.
func Corrupt(blob, file string, offset int64, format string, args ...any) error {
	return &Damage{Blob: blob, File: file, Offset: offset, Err: fmt.Errorf(format, args...)}
}

// Text returns the message of an error for display: without the names of categories at its end, which the message itself implies, and
// without secrets in addresses or settings. For a full disk it adds the remedy.
func Text(err error) string {
	lines := strings.Split(secret.Text(err.Error()), "\n")
	for i, line := range lines {
		lines[i] = withoutCategories(line)
	}
	s := strings.Join(lines, "\n")
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		s += "; free space there, then run the same command again: it continues"
	}
	return s
}

// withoutCategories returns a text without the names of categories, at its end and between its parts.
func withoutCategories(s string) string {
	for was := ""; was != s; {
		was = s
		for _, category := range []error{ErrConfig, ErrUnavailable, ErrRejected, ErrUnsupported, context.Canceled} {
			s = strings.ReplaceAll(strings.TrimSuffix(s, ": "+category.Error()), ": "+category.Error()+": ", ": ")
		}
	}
	return s
}

// Names returns a list of names as text: at most most of them, and how many more there are.
func Names(names []string, most int) string {
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}
