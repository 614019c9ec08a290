package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/importer"
)

// parsedImport parses a command line without running it.
func parsedImport(t *testing.T, args ...string) (o importOptions, err error) {
	t.Helper()
	c := importCommand()
	c.Action = func(c *cli.Context) error {
		o, err = parseImport(c)
		return nil
	}
	app := &cli.App{Name: "rfsd", Commands: []*cli.Command{c}, Writer: &bytes.Buffer{}, ErrWriter: &bytes.Buffer{}}
	if e := app.Run(append([]string{"rfsd", "import"}, args...)); e != nil {
		t.Fatal(e)
	}
	return o, err
}

func TestOptionsOfAnImportAreChecked(t *testing.T) {
	good := []string{"--from", "out", "--target-host", "http://127.0.0.1:9200"}
	for _, c := range []struct{ args, says string }{
		{"--from out", "--target-host is missing"},
		{"--target-host http://x:9200", "--from is missing"},
		{"--window-size 100", "--window-size 100 is not between"},
		{"--window-lease 1s", "--window-lease 1s is not between"},
		{"--window-lease soon", "--window-lease"},
		{"--max-attempts 0", "--max-attempts 0 is not between"},
		{"--emit-doc-type maybe", `--emit-doc-type "MAYBE" is not`},
		{"--slots 100", "--slots 100 is not between"},
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
	if err != nil || o.types != importer.DropTypes || o.windowLease != 30*time.Second || o.window != importer.DefaultWindow || !strings.HasSuffix(o.failedDir, "x") {
		t.Errorf("%+v %v", o, err)
	}
}

func TestTheExitCodeOfAnImportSaysHowItEnded(t *testing.T) {
	complete := importer.Status{Complete: true}
	refused, damaged := complete, complete
	refused.Failed = 3
	damaged.Failed, damaged.GivenUp = 3, 1
	for _, c := range []struct {
		status importer.Status
		err    error
		want   int
	}{
		{complete, nil, exitOK}, {refused, nil, exitRefused}, {damaged, nil, exitDamaged}, {importer.Status{}, nil, exitFailed}, {complete, errors.New("close"), exitFailed},
	} {
		r := &importReport{Status: c.status}
		err := r.conclude(importOptions{}, c.err)
		var coded *codedError
		if errors.As(err, &coded); r.ExitCode != c.want || c.want != exitOK && (coded == nil || coded.code != c.want) {
			t.Errorf("%+v, %v: exit %d, %v", c.status, c.err, r.ExitCode, err)
		}
	}
}
