package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/daemon/config"
	"github.com/rfsd/rfsd/rfs/secret"
)

func TestEveryFlagOfANodeIsAKeyOfTheFile(t *testing.T) {
	keys := map[string]string{}
	for _, s := range sections(runFlags()) {
		for _, k := range s.Keys {
			if other := keys[k.Name]; other != "" {
				t.Errorf("%s is in [%s] and in [%s]", k.Name, other, s.Name)
			}
			keys[k.Name] = s.Name
		}
	}
	for _, f := range runFlags() {
		name := f.Names()[0]
		if keys[name] == "" && !slices.Contains(notInFile, name) {
			t.Errorf("--%s is in no section", name)
		}
		if strings.Contains(name, "password") && !strings.HasSuffix(name, "-file") && !secret.Option(name) {
			t.Errorf("--%s is taken for no secret", name)
		}
	}
}

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
		values, err := config.Parse("rfsd.toml", text, sections(runFlags()))
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
	if code := run(t.Context(), []string{"rfsd", "config", "check", name}); code != exitOK {
		t.Errorf("rfsd config check deploy/rfsd.toml: exit code %d", code)
	}
}

// parse runs a command line of run up to its options.
func parse(t *testing.T, args ...string) (runOptions, error) {
	t.Helper()
	var r runOptions
	flags := append(runFlags(), str(node, "config", "", ""))
	app := &cli.App{Commands: []*cli.Command{{Name: "run", Flags: flags, Action: func(c *cli.Context) error {
		if err := readSettings(c, flags, c.String("config")); err != nil {
			return err
		}
		var err error
		r, err = parseRun(c)
		return err
	}}}}
	return r, app.Run(append([]string{"rfsd", "run"}, args...))
}

func TestFlagsAreOverTheEnvironmentAndThatIsOverTheFile(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	name := filepath.Join(t.TempDir(), "n.toml")
	text := "[source]\nrepo-uri = '/file'\nsnapshot-name = 'file'\ns3-region = 'file'\n[target]\ntarget-host = 'http://localhost:1'\n" +
		"[selection]\nindex-allowlist = ['a', 'regex:b,c']\n[work]\nmax-rate = 12.5\n[daemon]\nworkers = 3\nworker-memory = '100MB'\n[events]\ncommand = ['/bin/x', '--y']\n"
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
	if r.repoURI != "/file" || r.snapshot != "environment" || r.s3.Region != "flag" || r.workers != 3 || r.memory != 100_000_000 || r.maxRate != 12_500_000 {
		t.Errorf("%+v", r)
	}
	if !slices.Equal(r.indices.Include.Strings(), []string{"a", "regex:b,c"}) || !slices.Equal(r.command, []string{"/bin/x", "--y"}) {
		t.Errorf("%q, %q", r.indices.Include.Strings(), r.command)
	}
	// What workers get, and that it becomes the same options again.
	if !slices.Equal(r.settings["index-allowlist"], []string{"a", "regex:b,c"}) || r.settings["target-password"][0] != "canary" || r.settings["max-rate"] != nil || r.settings["workers"] != nil {
		t.Errorf("%v", r.settings)
	}
	app := &cli.App{Commands: []*cli.Command{{Name: "worker", Flags: workerFlags(), Action: func(c *cli.Context) error {
		for name, values := range r.settings {
			if err := setOption(c, name, values); err != nil {
				return err
			}
		}
		o, err := parseOptions(c)
		if err != nil {
			return err
		}
		if o.target.Password != "canary" || !slices.Equal(o.indices.Include.Strings(), []string{"a", "regex:b,c"}) || o.repoURI != "/file" {
			t.Errorf("%+v", o)
		}
		return nil
	}}}}
	for _, v := range []string{"RFS_SNAPSHOT_NAME", "RFS_S3_REGION", "RFS_TARGET_PASSWORD"} {
		if err := os.Unsetenv(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Run([]string{"rfsd", "worker"}); err != nil {
		t.Error(err)
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
		{"--worker-memory", "-1"}, {"--max-rate", "fast"}, {"--max-rate", "-1"}, {"--max-rate", "NaN"}, {"--webhook", "ftp://x"},
		{"--webhook-file", "/nowhere"}, {"--index-priority", "x"}, {"--config", "/nowhere"},
	} {
		if _, err := parse(t, append(slices.Clone(good), bad...)...); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

func TestSizesAreReadWithTheirUnits(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "17": 17, "17B": 17, "2kB": 2000, "3KiB": 3072, "512MB": 512e6, "1 GiB": 1 << 30} {
		if n, err := parseSize(text); err != nil || n != want {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "x", "1.5GB", "-1", "99999999999GiB", "GB"} {
		if n, err := parseSize(text); err == nil {
			t.Errorf("%q is taken for %d", text, n)
		}
	}
}
