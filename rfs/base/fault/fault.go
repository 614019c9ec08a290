// Package fault holds the few categories into which every error of rfsd falls.
//
// A category decides what the caller does: damage is named and never retried, a
// lost lease stops the work, a refusal by the target concerns one document or
// request forever, an unavailable peer is asked again. Errors wrap a category
// with %w and are tested with errors.Is.
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
	// ErrCorrupt means that bytes of the repository are not what they should be. Never retried.
	ErrCorrupt = errors.New("corrupt")
	// ErrUnsupported means a form that is intact but that rfsd refuses; the message states what to do.
	ErrUnsupported = errors.New("unsupported")
	// ErrLeaseLost means that another worker holds the work item, or that the lease has expired. Stop immediately.
	ErrLeaseLost = errors.New("lease lost")
	// ErrRejected means that the target refuses, and would refuse again. Permanent.
	ErrRejected = errors.New("rejected by target")
	// ErrUnavailable means that the other side cannot answer now. Retried with backoff.
	ErrUnavailable = errors.New("unavailable")
	// ErrConfig means that the user has to change an option, a permission or a name before a new run.
	ErrConfig = errors.New("configuration")
	// ErrNoBucket means that a bucket does not exist, or no longer. It is an ErrConfig.
	ErrNoBucket = fmt.Errorf("the bucket does not exist: %w", ErrConfig)
)

// Damage states which bytes of the repository are wrong. It is an ErrCorrupt.
type Damage struct {
	Blob   string // blob in the repository, relative to its root; "" when unknown yet
	File   string // Lucene file or part of a metadata blob; "" when the blob itself is meant
	Offset int64  // byte offset in File (in Blob when File is ""); -1 when it concerns the whole
	Err    error  // what is wrong
}

// Error names blob, file and offset, then the cause. Where one Damage wraps another,
// the inner one knows the place better and the outer one fills in what it lacks.
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

// Unwrap gives the cause.
func (d *Damage) Unwrap() error { return d.Err }

// Is makes every Damage an ErrCorrupt.
func (d *Damage) Is(target error) bool { return target == ErrCorrupt }

// Corrupt makes a Damage for a place in a blob or Lucene file.
func Corrupt(blob, file string, offset int64, format string, args ...any) error {
	return &Damage{Blob: blob, File: file, Offset: offset, Err: fmt.Errorf(format, args...)}
}

// Text is the message of an error for a person: without the names of the categories,
// which the message itself makes plain, and without secrets that addresses or settings in it hold.
// For a full disk it adds what to do.
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

// withoutCategories returns a text without the names of categories at its end.
func withoutCategories(s string) string {
	for was := ""; was != s; {
		was = s
		for _, category := range []error{ErrConfig, ErrUnavailable, ErrRejected, ErrUnsupported, context.Canceled} {
			s = strings.TrimSuffix(s, ": "+category.Error())
		}
	}
	return s
}

// Names returns a list of names in a text: the first of many, and how many more there are.
func Names(names []string, most int) string {
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}
