package failed_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/failed"
)

// TestOpen_RefusesADirectoryOfAnotherUser checks it as a user who is not root: root may write everywhere.
func TestOpen_RefusesADirectoryOfAnotherUser(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		const nobody = 65534
		for dir, mode := range map[string]os.FileMode{own: 0o700, filepath.Dir(own): 0o755, filepath.Dir(filepath.Dir(own)): 0o755} {
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(own, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := unix.SetfsuidRetUid(0); err != nil {
				t.Error(err)
			}
		}()
	}
	for _, c := range []struct {
		name, dir string
		err       error
	}{
		{"its own directory", own, nil},
		{"one that is made in it", filepath.Join(own, "a", "b"), nil},
		{"one of root", "/etc", fs.ErrPermission},
		{"one that would be made in one of root", "/etc/rfsd/failed", fs.ErrPermission},
	} {
		if _, err := failed.Open(c.dir, "w", failed.Full); !errors.Is(err, c.err) || c.err != nil && !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
	}
}
