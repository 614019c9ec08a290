package objectserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// The collector is built from testing/collector; its version is that of the modules named there.
const (
	collectorFolder  = "otelcol-0.161.0"
	collectorProgram = "rfsd-otelcol"
)

// InstallCollector returns the path of an OpenTelemetry collector and builds it in the user's cache when there is none. root is the
// directory of this module.
func InstallCollector(ctx context.Context, root string) (string, error) {
	return install(collectorFolder, collectorProgram, func(dir string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "testing", "collector"), "-o", filepath.Join(dir, collectorProgram), ".")
		cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
		return cmd
	})
}

// Collector is a running OpenTelemetry collector that receives OTLP by HTTP. It writes what it receives to two files: each message is
// preceded by its length in four bytes, the highest first.
type Collector struct {
	Endpoint        string
	Traces, Metrics string       // the files
	Stop            func() error // ends the collector, which writes what it still holds
}

// StartCollector starts a collector. It skips the test when the collector is not installed.
func StartCollector(t testing.TB) Collector {
	t.Helper()
	bin, err := Binary(collectorFolder, collectorProgram)
	if err != nil {
		t.Skipf("no OpenTelemetry collector: %v", err)
	}
	dir := t.TempDir()
	c := Collector{Traces: filepath.Join(dir, "traces"), Metrics: filepath.Join(dir, "metrics")}
	var cmd *exec.Cmd
	address, ended := run(t, func(host, port string) *exec.Cmd {
		conf := filepath.Join(dir, "collector.yaml")
		text := fmt.Sprintf(`receivers: {otlp: {protocols: {http: {endpoint: "%s:%s"}}}}
exporters: {file/traces: {path: %q, format: proto}, file/metrics: {path: %q, format: proto}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [file/traces]}
    metrics: {receivers: [otlp], exporters: [file/metrics]}
`, host, port, c.Traces, c.Metrics)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd = exec.Command(bin, "--config", "file:"+conf)
		return cmd
	})
	c.Endpoint = "http://" + address
	c.Stop = func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		<-ended
		if cmd.ProcessState.ExitCode() != 0 {
			return fmt.Errorf("the collector ended with %v", cmd.ProcessState)
		}
		return nil
	}
	return c
}
