// Package disk makes files that a process has open fail as on a broken disk.
package disk

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Break replaces a file that this process has open by a device, and returns a function that undoes it: /dev/full rejects writes like a full
// disk, /dev/null accepts them and fails to sync.
func Break(t testing.TB, path, device string) (mend func()) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err != nil || to != path {
			continue
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		return replace(t, fd, device)
	}
	t.Fatalf("%s is not open", path)
	return nil
}

// replace makes a descriptor refer to the device, and returns a function that restores it.
func replace(t testing.TB, fd int, device string) (mend func()) {
	t.Helper()
	kept, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	d, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := unix.Dup2(int(d.Fd()), fd); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(unix.Dup2(kept, fd), unix.Close(kept)); err != nil {
			t.Error(err)
		}
	}
}
