package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

func TestFreePortsDiffer(t *testing.T) {
	ports, err := freePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] {
			t.Errorf("port %d twice", p)
		}
		seen[p] = true
	}
}
