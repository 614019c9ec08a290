// Package conditional tests whether an object store keeps the conditions of writes.
package conditional

import (
	"context"
	"errors"
	"io/fs"
)

// Put writes an object if its version is still the given one, or with "" if it does not exist, and returns the new version. fs.ErrExist
// means that the condition did not hold.
type Put func(ctx context.Context, name string, body []byte, version string) (is string, err error)

// noVersion is not the version of any object.
const noVersion = `"00000000000000000000000000000000"`

// Kept creates an object unless it exists, and reports whether the store refuses to create it again and to replace a version that it does
// not have. It sends two or three requests, and may be repeated after an error.
func Kept(ctx context.Context, put Put, name string, body []byte) (bool, error) {
	created, err := accepts(ctx, put, name, body, "")
	if err != nil {
		return false, err
	}
	if created {
		if created, err = accepts(ctx, put, name, body, ""); err != nil {
			return false, err
		}
	}
	replaced, err := accepts(ctx, put, name, body, noVersion)
	return !created && !replaced, err
}

// accepts reports whether the condition of a write held.
func accepts(ctx context.Context, put Put, name string, body []byte, version string) (bool, error) {
	_, err := put(ctx, name, body, version)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}
