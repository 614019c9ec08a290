package config_test

import (
	"context"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
)

// TestCall_WithMoreOptions has a command name the line that runs it again: words as a shell reads them, and no secret.
func TestCall_WithMoreOptions(t *testing.T) {
	var line string
	app := &cli.App{Name: "rfsd", Commands: []*cli.Command{config.Command(cli.Command{Name: "redrive"}, func(_ context.Context, c *config.Call, _ config.Redrive) error {
		line = c.With("--index-allowlist", "-o'clock")
		return nil
	})}}
	err := app.Run([]string{"rfsd", "redrive", "--failed-documents", "my files", "--target-host", "http://a:1", "--target-host", "http://b:1", "--include-system", "--target-password", "s3cret"})
	want := `rfsd redrive --target-host http://a:1 --target-host http://b:1 --target-password '***' --include-system=true --failed-documents 'my files' --index-allowlist '-o'\''clock'`
	if err != nil || line != want {
		t.Errorf("%s, %v; want %s", line, err, want)
	}
}
