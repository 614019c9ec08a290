// Package s3server starts a real S3 server (versitygw over a directory) for tests: it
// checks signatures, answers ranges and pages of listings as S3 does.
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

// Start serves the folders of dir as buckets. It skips the test when the server is not installed:
// testing/setup.sh does that.
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

// Setenv sets the server's credentials, and no others, in the environment of the test's process.
func (s Server) Setenv(t *testing.T) {
	t.Helper()
	signer.SetEnvironment(t, "", s.AccessKey, s.SecretKey)
}

// Install returns the path of the server and builds it in the user's cache when there is none.
func Install(ctx context.Context) (string, error) {
	return objectserver.GoInstall(ctx, folder, program, module+"@"+version)
}
