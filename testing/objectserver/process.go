// Package objectserver runs servers for tests: object stores that answer as Google Cloud Storage (fake-gcs-server) and Azure Blob
// Storage (Azurite) do, and a collector of OpenTelemetry.
package objectserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
)

const (
	startTimeout   = 3 * time.Minute
	installTimeout = 30 * time.Minute
)

// Run starts a server at a free local address, which it passes to command, and blocks until the server listens. The server is stopped when
// the test ends.
func Run(t testing.TB, command func(host, port string) *exec.Cmd) (address string) {
	t.Helper()
	address, _ = run(t, command)
	return address
}

// run is Run, and also returns a channel that is closed when the server has ended.
func run(t testing.TB, command func(host, port string) *exec.Cmd) (string, <-chan struct{}) {
	t.Helper()
	address, err := cluster.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(host, port)
	log, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // it is killed at the end
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-ended
		log.Close()
	})
	if err := waitFor(address, ended); err != nil {
		b, _ := os.ReadFile(log.Name())
		t.Fatalf("%s does not answer: %v\n%s", cmd.Path, err, b)
	}
	return address, ended
}

// waitFor blocks until a server listens.
func waitFor(addr string, ended <-chan struct{}) error {
	deadline := time.After(startTimeout)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-again.C:
		case <-ended:
			return fmt.Errorf("it ended: %w", err)
		case <-deadline:
			return err
		}
	}
}

// Place returns the path of a program in the user's cache: folder is its name and version.
func Place(folder, program string) (string, error) {
	cache := os.Getenv("RFSD_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(dir, "rfsd")
	}
	return filepath.Join(cache, folder, program), nil
}

// Binary finds a program on the path or in the cache. Tests install nothing: testing/setup.sh does.
func Binary(folder, program string) (string, error) {
	if bin, err := exec.LookPath(filepath.Base(program)); err == nil {
		return bin, nil
	}
	bin, err := Place(folder, program)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(bin); err != nil {
		return "", fmt.Errorf("%s is not installed; run testing/setup.sh: %w", filepath.Base(program), err)
	}
	return bin, nil
}

// GoInstall returns the path of a Go program, and builds it in the user's cache if it is missing.
func GoInstall(ctx context.Context, folder, program, module string) (string, error) {
	return install(folder, program, func(dir string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "go", "install", module) // go install renames into the final name
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "CGO_ENABLED=0")
		return cmd
	})
}

// install returns the path of a program, and installs it if it is missing.
func install(folder, program string, command func(dir string) *exec.Cmd) (string, error) {
	if bin, err := Binary(folder, program); err == nil {
		return bin, nil
	}
	bin, err := Place(folder, program)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(bin)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	cmd := command(dir)
	late := time.AfterFunc(installTimeout, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	defer late.Stop()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return bin, nil
}
