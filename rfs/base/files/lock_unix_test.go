//go:build unix

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/files"
)

// TestLock_ExcludesOtherModes opens one file twice and tries each pair of locks.
func TestLock_ExcludesOtherModes(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second files.Locking
		want          error
	}{
		{"both exclusive", files.TryExclusive, files.TryExclusive, files.ErrLocked},
		{"exclusive, then shared", files.TryExclusive, files.TryShared, files.ErrLocked},
		{"shared, then exclusive", files.TryShared, files.TryExclusive, files.ErrLocked},
		{"both shared", files.TryShared, files.TryShared, nil},
		{"blocking exclusive, then shared", files.Exclusive, files.TryShared, files.ErrLocked},
		{"blocking shared, then shared", files.Shared, files.TryShared, nil},
		{"blocking shared, then exclusive", files.Shared, files.TryExclusive, files.ErrLocked},
		{"both blocking shared", files.Shared, files.Shared, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, two := openTwice(t)
			if err := files.Lock(one, c.first); err != nil {
				t.Fatal(err)
			}
			if err := files.Lock(two, c.second); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if err := one.Close(); err != nil {
				t.Fatal(err)
			}
			if err := files.Lock(two, files.TryExclusive); err != nil {
				t.Errorf("after the first was closed: %v", err)
			}
		})
	}
}

// TestLock_BlocksUntilFree checks that the blocking modes wait until the file is free.
func TestLock_BlocksUntilFree(t *testing.T) {
	for name, how := range map[string]files.Locking{"exclusive": files.Exclusive, "shared": files.Shared} {
		t.Run(name, func(t *testing.T) {
			one, two := openTwice(t)
			if err := files.Lock(one, files.TryExclusive); err != nil {
				t.Fatal(err)
			}
			taken := make(chan error, 1)
			go func() { taken <- files.Lock(two, how) }()
			select {
			case err := <-taken:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			if err := one.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-taken; err != nil {
				t.Error(err)
			}
		})
	}
}

// openTwice opens a new file twice.
func openTwice(t *testing.T) (one, two *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	for _, f := range []**os.File{&one, &two} {
		var err error
		if *f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*f).Close() })
	}
	return one, two
}
