// Package s3server starts a real S3 server (versitygw over a directory) for tests. It verifies signatures and supports ranges and paged
// listings like S3.
package s3server

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/signer"
)

// Module and version of the server that Install builds.
const (
	module  = "github.com/versity/versitygw/cmd/versitygw"
	version = "v1.8.0"
	program = "versitygw"
	folder  = program + "-" + version
)

// Server is a running server. It is stopped when the test ends.
type Server struct {
	Endpoint  string // http://127.0.0.1:port
	AccessKey string
	SecretKey string
	Region    string
}

// Start serves the directories in dir as buckets. It skips the test if the server is not installed; testing/setup.sh installs it.
func Start(t testing.TB, dir string) Server {
	t.Helper()
	bin, err := objectserver.Binary(folder, program)
	if err != nil {
		t.Skipf("no S3 server: %v", err)
	}
	s := Server{AccessKey: "rfsd-test", SecretKey: "rfsd-test-key", Region: "us-east-1"}
	s.Endpoint = "http://" + objectserver.Run(t, func(host, port string) *exec.Cmd {
		cmd := exec.Command(bin, "--port", net.JoinHostPort(host, port), "--quiet", "posix", dir)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.AccessKey, "ROOT_SECRET_KEY="+s.SecretKey)
		return cmd
	})
	return s
}

// Setenv sets the server's credentials in the environment of the test's process, and removes others.
func (s Server) Setenv(t *testing.T) {
	t.Helper()
	signer.SetEnvironment(t, "", s.AccessKey, s.SecretKey)
}

// Install returns the path of the server, and builds it in the user's cache if it is missing.
func Install(ctx context.Context) (string, error) {
	return objectserver.GoInstall(ctx, folder, program, module+"@"+version)
}
