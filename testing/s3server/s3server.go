// Package s3server starts a real S3 server (versitygw over a directory) for tests: it
// checks signatures, answers ranges and pages of listings as S3 does.
package s3server

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

	"github.com/rfsd/rfsd/testing/signer"
)

// Module and version of the server that Install builds.
const (
	module  = "github.com/versity/versitygw/cmd/versitygw"
	version = "v1.8.0"
)

const (
	startTimeout   = time.Minute
	installTimeout = 30 * time.Minute
)

// Server is a running server. It is stopped when the test ends.
type Server struct {
	Endpoint  string // http://127.0.0.1:port
	AccessKey string
	SecretKey string
	Region    string
}

// Start serves the folders of dir as buckets. It skips the test when the server is not installed:
// testing/setup.sh does that.
func Start(t testing.TB, dir string) Server {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Skipf("no S3 server: %v", err)
	}
	addr, err := cluster.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := Server{Endpoint: "http://" + addr, AccessKey: "rfsd-test", SecretKey: "rfsd-test-key", Region: "us-east-1"}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, bin, "--port", addr, "--quiet", "posix", dir)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.AccessKey, "ROOT_SECRET_KEY="+s.SecretKey)
	log, err := os.Create(filepath.Join(t.TempDir(), "versitygw.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", bin, err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // it is killed in the end
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		log.Close()
	})
	if err := waitFor(addr, ended); err != nil {
		b, _ := os.ReadFile(log.Name())
		t.Fatalf("the S3 server does not answer: %v\n%s", err, b)
	}
	return s
}

// Setenv sets the server's credentials, and no others, in the environment of the test's process.
func (s Server) Setenv(t *testing.T) {
	t.Helper()
	signer.SetEnvironment(t, "", s.AccessKey, s.SecretKey)
}

// waitFor dials until a server listens.
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

// place returns where the server is installed in the user's cache.
func place() (string, error) {
	cache := os.Getenv("RFSD_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(dir, "rfsd")
	}
	return filepath.Join(cache, "versitygw-"+version, "versitygw"), nil
}

// binary finds the server on the path or in the user's cache. A test installs nothing.
func binary() (string, error) {
	if bin, err := exec.LookPath("versitygw"); err == nil {
		return bin, nil
	}
	bin, err := place()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(bin); err != nil {
		return "", fmt.Errorf("versitygw is not installed; run testing/setup.sh: %w", err)
	}
	return bin, nil
}

// Install returns the path of the server and builds it in the user's cache when there is none.
func Install(ctx context.Context) (string, error) {
	if bin, err := binary(); err == nil {
		return bin, nil
	}
	bin, err := place()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(bin)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "install", module+"@"+version) // go install renames into place
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s@%s: %w\n%s", module, version, err, out)
	}
	return bin, nil
}
