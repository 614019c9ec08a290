package wiring

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// parsedImport parses a command line without running it.
func parsedImport(t *testing.T, args ...string) (o ImportOptions, err error) {
	t.Helper()
	c := config.Raw[config.ImportCommand](cli.Command{Name: "import"}, func(_ context.Context, call *config.Call) error {
		var i config.Import
		if err := config.Decode(call.Given(), &i); err != nil {
			return err
		}
		o = ForImport("test", i)
		return nil
	})
	app := &cli.App{Name: "rfsd", Commands: []*cli.Command{c}, Writer: io.Discard, ErrWriter: io.Discard}
	return o, app.Run(append([]string{"rfsd", "import"}, args...))
}

func TestOptionsOfAnImportAreChecked(t *testing.T) {
	good := []string{"--from", "out", "--target-host", "http://127.0.0.1:9200"}
	for _, c := range []struct{ args, says string }{
		{"--from out", "--target-host is missing"},
		{"--target-host http://x:9200", "--from is missing"},
		{"--window-size 100", `invalid --window-size "100"`},
		{"--window-lease 1s", `invalid --window-lease "1s": want a duration such as 10m or PT10M, from 2s to 1h`},
		{"--window-lease soon", "--window-lease"},
		{"--max-attempts 0", `invalid --max-attempts "0": want a whole number, from 1 to 1000`},
		{"--emit-doc-type maybe", `invalid --emit-doc-type "maybe": want AUTO, ON or OFF`},
		{"--slots 100", `invalid --slots "100"`},
		{"--session-name A", "--session-name"},
		{"--output xml", "--output"},
		{"--coordinator-host http://y:9200 --coordinator-file f", "exclude each other"},
	} {
		args := strings.Fields(c.args)
		if !strings.Contains(c.says, "missing") {
			args = append(args, good...)
		}
		if _, err := parsedImport(t, args...); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
	o, err := parsedImport(t, append(good, "--emit-doc-type", "off", "--window-lease", "PT30S", "--session-name", "x")...)
	if err != nil || o.types != importer.DropTypes || o.windows.Lease != 30*time.Second || o.windows.Size != importer.DefaultWindow || o.windows.MaxAttempts != importer.DefaultMaxAttempts || !strings.HasSuffix(o.FailedDir, "x") {
		t.Errorf("%+v %v", o, err)
	}
}
