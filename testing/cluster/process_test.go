package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

func TestSweepTakesOnlyWhatDeadProcessesLeft(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	tmp := t.TempDir()
	dead := filepath.Join(tmp, fmt.Sprintf("%s%d-1", dirPrefix, cmd.Process.Pid))
	alive := filepath.Join(tmp, fmt.Sprintf("%s%d-1", dirPrefix, os.Getpid()))
	other := filepath.Join(tmp, dirPrefix+"x-1")
	for _, d := range []string{dead, alive, other} {
		if err := os.MkdirAll(filepath.Join(d, "data"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweep(tmp); err != nil {
		t.Fatal(err)
	}
	for d, want := range map[string]bool{dead: false, alive: true, other: true} {
		if _, err := os.Stat(d); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", d, err == nil, want)
		}
	}
}

func TestPlacesAreDistinctFreeAndOutOfTheWayOfOutgoingConnections(t *testing.T) {
	places, err := free(5, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range places {
		for _, port := range []int{p.http, p.transport} {
			if seen[port] || port < lowPort || port >= highPort {
				t.Errorf("port %d: twice, or not from %d to %d", port, lowPort, highPort)
			}
			seen[port] = true
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
	}
}

// TestAFreeAddressIsFreeWhileProcessesStart: the child of a process that forks holds a copy of every open listener until it executes
// its program.
func TestAFreeAddressIsFreeWhileProcessesStart(t *testing.T) {
	_ = exec.Command("true").Run() // the first one clones the process without the lock, to see whether the kernel has pidfd
	var starting sync.WaitGroup
	defer starting.Wait()
	var done atomic.Bool
	defer done.Store(true)
	for range 4 {
		starting.Go(func() {
			for !done.Load() {
				_ = exec.Command("true").Run()
			}
		})
	}
	for range 2000 {
		address, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

func TestATakenPortIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	if places, err := free(1, taken); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, %v", places, err)
	}
}
