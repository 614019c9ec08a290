package owner_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rfsd/rfsd/rfs/coordination/owner"
)

// A second process is refused while the first is alive; afterwards it learns for which leases nothing has to wait.
func Example() {
	dir, err := os.MkdirTemp("", "owner-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "session.owner")
	first, err := owner.Take(path, "host_pid1_a")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = owner.Take(path, "host_pid2_b")
	fmt.Println("refused:", errors.Is(err, owner.ErrLive))
	_ = first.Release() // as the end of the process does
	second, err := owner.Take(path, "host_pid2_b")
	fmt.Println("dead:", second.Dead(), err)
	fmt.Println(second.Freed(), second.Release())
	third, err := owner.Take(path, "host_pid3_c")
	fmt.Println("dead:", third.Dead(), err)
	fmt.Println(third.Forget(), third.Release())
	// Output:
	// refused: true
	// dead: [host_pid1_a] <nil>
	// <nil> <nil>
	// dead: [host_pid2_b] <nil>
	// <nil> <nil>
}
