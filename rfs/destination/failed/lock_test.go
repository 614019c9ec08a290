//go:build unix

package failed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rfsd/rfsd/rfs/base/files"
)

// TestLocked_FileSystemsThatCannotLock checks that these are written to without a lock, and that no other error is dropped.
func TestLocked_FileSystemsThatCannotLock(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"it is locked", nil, nil},
		{"no lock is left", unix.ENOLCK, nil},
		{"the system has no locks", unix.ENOSYS, nil},
		{"the file system has no locks", unix.EOPNOTSUPP, nil},
		{"another process has the lock", files.ErrLocked, files.ErrLocked},
		{"an error of the disk", unix.EIO, unix.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := locked(c.err); !errors.Is(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "closed"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lockShared(f); !errors.Is(err, fs.ErrClosed) && !errors.Is(err, unix.EBADF) {
		t.Errorf("a closed file: %v", err)
	}
}
