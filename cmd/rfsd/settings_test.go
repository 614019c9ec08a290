package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
)

func TestTheExampleIsAFileThatANodeTakes(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "rfsd.toml"))
	if err != nil {
		t.Fatal(err)
	}
	var active, all []string
	for line := range strings.Lines(string(b)) {
		active = append(active, line)
		// Settings that are commented out stand as "#key = value".
		if rest, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(rest, " ") && strings.Contains(rest, "=") {
			line = rest
		}
		all = append(all, line)
	}
	for _, text := range []string{strings.Join(active, ""), strings.Join(all, "")} {
		values, err := config.Parse("rfsd.toml", text, config.Settings(config.Checked{}))
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		if len(values) < 4 {
			t.Errorf("%v", values)
		}
	}
	name := filepath.Join(t.TempDir(), "rfsd.toml")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if code := run(t.Context(), []string{"rfsd", "config", "check", name}, os.Stdout, os.Stderr); code != exit.OK {
		t.Errorf("rfsd config check deploy/rfsd.toml: exit code %d", code)
	}
}

// parse runs a command line of run up to its options.
func parse(t *testing.T, args ...string) (runOptions, error) {
	t.Helper()
	var r runOptions
	c := config.Raw[config.Run](cli.Command{Name: "run"}, func(_ context.Context, call *config.Call) error {
		values, err := nodeSettings(call, call.Given().Text("config"))
		if err == nil {
			r, err = parseRun(values)
		}
		return err
	})
	app := &cli.App{Commands: []*cli.Command{c}, Writer: io.Discard, ErrWriter: io.Discard}
	return r, app.Run(append([]string{"rfsd", "run"}, args...))
}

func TestFlagsAreOverTheEnvironmentAndThatIsOverTheFile(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	name := filepath.Join(t.TempDir(), "n.toml")
	text := "[source]\nrepo-uri = '/file'\nsnapshot-name = 'file'\ns3-region = 'file'\n[target]\ntarget-host = 'http://localhost:1'\n" +
		"[selection]\nindex-allowlist = ['a', 'regex:b,c']\n[work]\nmax-rate = '12.5MB'\n[daemon]\nworkers = 3\nworker-memory = '100MB'\n[events]\ncommand = ['/bin/x', '--y']\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RFS_SNAPSHOT_NAME", "environment")
	t.Setenv("RFS_S3_REGION", "environment")
	t.Setenv("RFS_TARGET_PASSWORD", "canary")
	r, err := parse(t, "--config", name, "--s3-region", "flag")
	if err != nil {
		t.Fatal(err)
	}
	send, _ := r.NodeLimits(nil, slog.New(slog.DiscardHandler))
	if r.Snapshot != "environment" || r.own.Node.Workers != 3 || r.own.Node.Memory != 100_000_000 || send.Most != 12_500_000 || !slices.Equal(r.own.Events.Command, []string{"/bin/x", "--y"}) {
		t.Errorf("%+v", r)
	}
	// What workers get, and that it becomes the same options again.
	if !slices.Equal(r.settings["index-allowlist"], []string{"a", "regex:b,c"}) || r.settings["target-password"][0] != "canary" || r.settings["max-rate"] != nil || r.settings["workers"] != nil {
		t.Errorf("%v", r.settings)
	}
	o, err := decodeMigrate(r.settings)
	if err != nil || o.Target.Password != "canary" || o.Snapshot != "environment" {
		t.Errorf("%+v, %v", o, err)
	}
	var m config.Migrate
	if err := config.Decode(r.settings, &m); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Indices.Include.List.Strings(), []string{"a", "regex:b,c"}) || m.Repository.URI != "/file" || m.Repository.Stores.Options().S3.Region != "flag" {
		t.Errorf("%+v", m)
	}
}

func TestANodeRefusesWhatMeansNothing(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	good := []string{"--repo-uri", "/x", "--snapshot-name", "s", "--target-host", "http://localhost:1"}
	if _, err := parse(t, good...); err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]string{
		{"--workers", "0"}, {"--workers", "many"}, {"--max-workers", "0"}, {"--worker-memory", "1XB"}, {"--worker-memory", "1MB"},
		{"--worker-memory", "-1"}, {"--max-rate", "fast"}, {"--max-rate", "-1"}, {"--max-rate", "NaN"}, {"--max-read-rate", "20"}, {"--webhook", "ftp://x"},
		{"--webhook-file", "/nowhere"}, {"--index-priority", "x"}, {"--config", "/nowhere"},
	} {
		if _, err := parse(t, append(slices.Clone(good), bad...)...); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

func TestConfigCheckFindsWhatARunWouldStumbleOver(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.pem")
	if err := os.WriteFile(broken, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := "[source]\nrepo-uri = '/file'\nsnapshot-name = 'file'\n[target]\ntarget-host = 'http://localhost:1'\n"
	for _, c := range []struct{ name, text, want string }{
		{"nothing wrong", good, ""},
		{"a certificate that is missing", good + "target-cacert = '/nowhere/ca.pem'\n", "--target-cacert"},
		{"a certificate that is none", good + "target-cacert = '" + broken + "'\n", broken},
		{"a URL without a scheme", strings.Replace(good, "http://", "", 1), "--target-host"},
		{"certificates in part", good + "[api]\nlisten = '127.0.0.1:0'\ntls-cert = '" + broken + "'\n", "--tls-key and --tls-ca is missing"},
		{"certificates of the API that are none", good + "[api]\nlisten = '127.0.0.1:0'\ntls-cert = '" + broken + "'\ntls-key = '" + broken + "'\ntls-ca = '" + broken + "'\n", broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(dir, "n.toml")
			if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			app := newApp()
			app.Writer = io.Discard
			err := app.RunContext(t.Context(), []string{"rfsd", "config", "check", name})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
