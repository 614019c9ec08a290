package cluster

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is a Debian that setup.sh runs on: a PATH that holds a few true programs and stand-ins for those that would
// change the machine or ask a registry.
type machine struct {
	t    *testing.T
	dir  string
	user string // what id -u prints
}

// known is what apt-cache knows in these tests, with the names that installing a package puts on PATH or below jdks.
var known = map[string]string{
	"gcc": "bin/gcc", "libc6-dev": "", "maven": "bin/mvn", "chromium": "bin/chromium", "curl": "bin/curl",
	"openjdk-17-jdk-headless": "jdks/17",
}

func newMachine(t *testing.T, user string) machine {
	t.Helper()
	m := machine{t: t, dir: t.TempDir(), user: user}
	for _, d := range []string{"bin", "jdks"} {
		if err := os.Mkdir(filepath.Join(m.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bash", "sh", "sed", "cat", "tr", "dirname", "mkdir", "touch", "chmod", "seq", "sort"} {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(real, filepath.Join(m.dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	var installs, policies strings.Builder
	for name, puts := range known {
		// A reader that leaves at the first match ends this program by SIGPIPE: the rest is longer than a pipe.
		policies.WriteString(name + `) echo "  Candidate: 1.0"; seq 100000 ;;` + "\n")
		switch d, f := filepath.Split(puts); d {
		case "bin/":
			installs.WriteString(name + `) echo '#!/bin/sh' >"$dir/bin/` + f + `"; chmod +x "$dir/bin/` + f + `" ;;` + "\n")
		case "jdks/":
			installs.WriteString(name + `) mkdir -p "$dir/jdks/` + f + `/bin"; touch "$dir/jdks/` + f + `/bin/javac"; ` +
				`echo 'JAVA_VERSION="` + f + `.0.1"' >"$dir/jdks/` + f + `/release" ;;` + "\n")
		}
	}
	m.program("id", "echo "+user)
	m.program("go", `echo "go $*"`)
	m.program("apt-cache", `case $2 in `+policies.String()+` nothing) ;; *) echo "  Candidate: (none)" ;; esac`)
	m.program("apt-get", `dir='`+m.dir+`'; echo "$*" >>"$dir/apt"; for p; do case $p in `+installs.String()+` esac; done`)
	return m
}

func (m machine) program(name, body string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, "bin", name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// setup runs the script and returns its exit code and what it said.
func (m machine) setup(args ...string) (int, string) {
	m.t.Helper()
	script, err := filepath.Abs(filepath.Join("..", "setup.sh"))
	if err != nil {
		m.t.Fatal(err)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		m.t.Skip(err)
	}
	cmd := exec.CommandContext(m.t.Context(), bash, append([]string{script}, args...)...)
	cmd.Env = []string{"PATH=" + filepath.Join(m.dir, "bin"), "RFSD_JDKS=" + filepath.Join(m.dir, "nowhere", "*") + ":" + filepath.Join(m.dir, "jdks", "*")}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (m machine) installed() string {
	b, _ := os.ReadFile(filepath.Join(m.dir, "apt")) // absent when apt-get never ran
	return string(b)
}

func TestSetupInstallsOnAFreshMachine(t *testing.T) {
	t.Run("root: every missing package is installed and named", func(t *testing.T) {
		m := newMachine(t, "0")
		code, out := m.setup()
		if code != 0 {
			t.Fatalf("exit %d:\n%s", code, out)
		}
		for _, name := range []string{"gcc", "libc6-dev", "openjdk-17-jdk-headless", "maven", "chromium", "curl"} {
			if !slices.Contains(strings.Fields(m.installed()), name) || !strings.Contains(out, name) {
				t.Errorf("%s is not installed, or not named:\n%s%s", name, m.installed(), out)
			}
		}
		if !strings.Contains(out, "no package of this distribution: a JDK 21") || !strings.Contains(out, "OpenSearch 3.8") {
			t.Errorf("that no JDK 21 is to be had is not said:\n%s", out)
		}
		if !strings.Contains(out, "go run -buildvcs=false ./testing/objectserver/fetch") {
			t.Errorf("the object stores are not installed:\n%s", out)
		}
		if code, out := m.setup(); code != 0 || strings.Count(m.installed(), "install ") != 1 {
			t.Errorf("a second time: exit %d, apt-get again:\n%s%s", code, m.installed(), out)
		}
	})
	t.Run("root, packages only: no object stores", func(t *testing.T) {
		m := newMachine(t, "0")
		if code, out := m.setup("packages"); code != 0 || strings.Contains(out, "objectserver") {
			t.Errorf("exit %d:\n%s", code, out)
		}
	})
	t.Run("user: one command for root, nothing installed", func(t *testing.T) {
		m := newMachine(t, "1000")
		code, out := m.setup()
		if code != 1 || m.installed() != "" || strings.Count(out, "run once as root: ") != 1 || !strings.Contains(out, "testing/setup.sh packages\n") {
			t.Errorf("exit %d:\n%s%s", code, out, m.installed())
		}
		if !strings.Contains(out, "a C compiler") {
			t.Errorf("the missing compiler is not named:\n%s", out)
		}
	})
	t.Run("user after root: nothing to do but the object stores", func(t *testing.T) {
		m := newMachine(t, "0")
		if code, out := m.setup("packages"); code != 0 {
			t.Fatalf("exit %d:\n%s", code, out)
		}
		m.program("id", "echo 1000")
		if code, out := m.setup(); code != 0 || strings.Contains(out, "as root") || !strings.Contains(out, "objectserver") {
			t.Errorf("exit %d:\n%s", code, out)
		}
	})
	t.Run("an installation that fails is an error", func(t *testing.T) {
		m := newMachine(t, "0")
		m.program("apt-get", "exit 100")
		if code, out := m.setup(); code != 1 || !strings.Contains(out, "missing: a JDK 17") || strings.Contains(out, "objectserver") {
			t.Errorf("exit %d:\n%s", code, out)
		}
	})
	t.Run("lists that know nothing are an error", func(t *testing.T) {
		m := newMachine(t, "0")
		m.program("apt-cache", "exit 0")
		if code, out := m.setup(); code != 1 || !strings.Contains(out, "missing: a C compiler") || !strings.Contains(out, "missing: a JDK 17") {
			t.Errorf("exit %d:\n%s", code, out)
		}
	})
	t.Run("what the distribution lacks is listed", func(t *testing.T) {
		m := newMachine(t, "1000")
		if code, out := m.setup("lacking"); code != 0 || out != "jdk21\n" {
			t.Errorf("exit %d: %q", code, out)
		}
	})
}

// TestSetupAndClusterLookForJDKsInTheSamePlaces compares the script's list with this package's.
func TestSetupAndClusterLookForJDKsInTheSamePlaces(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"jvm/a", "jvm/b", "opt/jdk-21"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, own := range map[string]string{"table": "", "RFSD_JDKS": dir + "/jvm/*:" + dir + "/none/*:" + dir + "/opt/*jdk*"} {
		for _, home := range []string{"", filepath.Join(dir, "home")} {
			t.Run(name+" JAVA_HOME="+filepath.Base(home), func(t *testing.T) {
				t.Setenv("RFSD_JDKS", own)
				t.Setenv("JAVA_HOME", home)
				want, _, err := jdkHomes()
				if err != nil {
					t.Fatal(err)
				}
				// The function is taken out of the script: the whole of it would install things.
				script := `here=..; eval "$(sed -n '/^jdk_homes() {/,/^}/p' ../setup.sh)"; jdk_homes`
				out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script).Output()
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Fields(string(out)); !slices.Equal(got, want) {
					t.Errorf("setup.sh %v, cluster %v", got, want)
				}
				if own != "" && len(want) < 3 {
					t.Errorf("only %v", want)
				}
			})
		}
	}
}

func TestWithoutAJDKTheErrorStatesTheCommand(t *testing.T) {
	t.Setenv("JAVA_HOME", "")
	t.Setenv("RFSD_JDKS", filepath.Join(t.TempDir(), "*"))
	_, err := javaHome(17, 20)
	if !errors.Is(err, ErrMissing) || !bytes.Contains([]byte(err.Error()), []byte("run as root: testing/setup.sh packages")) {
		t.Errorf("error %v", err)
	}
}
