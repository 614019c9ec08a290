// Package deploy_test holds what lies beside the programs to what the guide promises of it.
package deploy_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("not run: %s is not installed", program)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheUnitIsHardenedAndStopsGently(t *testing.T) {
	unit := string(read(t, "systemd/rfsd.service"))
	for _, line := range []string{"Type=notify", "KillMode=mixed", "TimeoutStopSec=45s", "OOMPolicy=continue", "WatchdogSec=30s", "RestartPreventExitStatus=6 7 8",
		"RuntimeDirectory=rfsd", "StateDirectory=rfsd", "Group=rfsd", "SupplementaryGroups=rfsd-operators", "NoNewPrivileges=yes", "LimitCORE=0"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
	need(t, "systemd-analyze")
	for name, most := range map[string]float64{"systemd/rfsd.service": 2.0, "aws/rfsd-lifecycle.service": 3.0} {
		out := run(t, "systemd-analyze", "security", "--offline=true", name)
		m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no level in\n%s", out)
		}
		level, err := strconv.ParseFloat(m[1], 64)
		if err != nil || level > most {
			t.Errorf("%s: exposure %s, want at most %.1f", name, m[1], most)
		}
		t.Logf("%s: exposure %s", name, m[1])
	}
}

// TestOperatorsAreNotTheServicesGroup: who may steer a node does not read its keys.
func TestOperatorsAreNotTheServicesGroup(t *testing.T) {
	for name, words := range map[string]string{
		"systemd/rfsd.sysusers.conf": "g rfsd-operators -", "package/postinstall.sh": "groupadd --system rfsd-operators",
		"../daemon/api/api.go": `LookupGroup("rfsd-operators")`, "../docs/DEPLOY.md": "usermod -aG rfsd-operators ", "../docs/SECURITY.md": "group `rfsd-operators`",
	} {
		if text := string(read(t, name)); !strings.Contains(text, words) || strings.Contains(text, "usermod -aG rfsd ") {
			t.Errorf("%s does not have operators in a group of their own", name)
		}
	}
}

// TestNodesDeleteTheirOwnOnly: what a node may delete on the domain are records, searches and the doctor's probe.
func TestNodesDeleteTheirOwnOnly(t *testing.T) {
	var policy struct {
		Statement []struct {
			Action   any
			Resource any
		}
	}
	if err := json.Unmarshal(read(t, "aws/node-policy.json"), &policy); err != nil {
		t.Fatal(err)
	}
	for _, s := range policy.Statement {
		if !slices.Contains(list(s.Action), "es:ESHttpDelete") {
			continue
		}
		for _, r := range list(s.Resource) {
			if _, path, _ := strings.Cut(r, "domain/DOMAIN/"); path == "*" || path == "" {
				t.Errorf("a node may delete %s", r)
			}
		}
	}
}

// calls maps each action of IAM to the words in the product that need it.
var calls = map[string]struct{ dir, word string }{
	"s3:ListBucket":                       {"../rfs/repo", "NewListObjectsV2Paginator("},
	"s3:GetObject":                        {"../rfs/repo", ".GetObject("},
	"ec2:DescribeInstances":               {"../gossip", "DescribeInstances"},
	"es:ESHttpGet":                        {"../rfs", "http.MethodGet"},
	"es:ESHttpHead":                       {"../rfs", "http.MethodHead"},
	"es:ESHttpPost":                       {"../rfs", "http.MethodPost"},
	"es:ESHttpPut":                        {"../rfs", "http.MethodPut"},
	"es:ESHttpDelete":                     {"../rfs", "http.MethodDelete"},
	"autoscaling:CompleteLifecycleAction": {"aws", "autoscaling complete-lifecycle-action"},
	"sts:AssumeRole":                      {"aws", `"Service": "ec2.amazonaws.com"`}, // of the machine itself
}

func TestEveryPermissionIsOneThatIsUsed(t *testing.T) {
	files, err := filepath.Glob("aws/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	granted := map[string]bool{}
	for _, name := range files {
		var doc map[string]any
		if err := json.Unmarshal(read(t, name), &doc); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		statements, _ := doc["Statement"].([]any)
		if strings.HasSuffix(name, "policy.json") && len(statements) == 0 {
			t.Errorf("%s grants nothing", name)
		}
		for _, x := range statements {
			s := x.(map[string]any)
			for _, action := range list(s["Action"]) {
				granted[action] = true
				if strings.Contains(action, "*") {
					t.Errorf("%s grants %s", name, action)
				}
				if resources := list(s["Resource"]); slices.Contains(resources, "*") && action != "ec2:DescribeInstances" {
					t.Errorf("%s grants %s on everything", name, action) // describing knows no resources
				}
			}
		}
	}
	for action := range granted {
		use, ok := calls[action]
		if !ok || !contains(t, use.dir, use.word) {
			t.Errorf("%s is granted, and nothing needs it", action)
		}
	}
	for action := range calls {
		if !granted[action] {
			t.Errorf("%s is needed and not granted", action)
		}
	}
}

// TestTheOperatorsPolicyCoversUndo: every method that `rfsctl undo` sends is granted on everything that it may remove.
func TestTheOperatorsPolicyCoversUndo(t *testing.T) {
	var policy struct {
		Statement []struct{ Action, Resource any }
	}
	if err := json.Unmarshal(read(t, "aws/operator-policy.json"), &policy); err != nil {
		t.Fatal(err)
	}
	granted := map[string]bool{}
	for _, s := range policy.Statement {
		for _, action := range list(s.Action) {
			granted[action] = slices.ContainsFunc(list(s.Resource), func(r string) bool { return strings.HasSuffix(r, "domain/DOMAIN/*") })
		}
	}
	for action, use := range calls {
		method, ok := strings.CutPrefix(action, "es:ESHttp")
		if !ok {
			continue
		}
		for _, dir := range []string{"../rfs/rollback", "../rfs/tuning", "../rfs/cms/oscms"} {
			if contains(t, dir, use.word) && !granted[action] {
				t.Errorf("%s sends %s, which the policy does not grant", dir, method)
			}
		}
	}
	if !granted["es:ESHttpDelete"] {
		t.Error("operators may not remove anything")
	}
}

func list(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			all = append(all, x.(string))
		}
	}
	return all
}

func contains(t *testing.T, dir, word string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "node-policy.json") {
			return err
		}
		found = found || bytes.Contains(read(t, name), []byte(word))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestAnInstanceThatIsTakenAwayHandsItsWorkOver runs the real script beside a server of metadata and
// stand-ins for systemctl and aws.
func TestAnInstanceThatIsTakenAwayHandsItsWorkOver(t *testing.T) {
	need(t, "curl")
	for _, script := range []string{"aws/lifecycle.sh", "aws/user-data.sh", "package/postinstall.sh", "package/preremove.sh", "package/build.sh"} {
		run(t, "bash", "-n", script)
	}
	var state atomic.Value
	state.Store("InService")
	asked := make(chan struct{}, 100)
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			fmt.Fprint(w, "t0ken")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "t0ken":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/target-lifecycle-state"):
			fmt.Fprint(w, state.Load())
			select {
			case asked <- struct{}{}:
			default:
			}
		case strings.HasSuffix(r.URL.Path, "/instance-id"):
			fmt.Fprint(w, "i-0123")
		case strings.HasSuffix(r.URL.Path, "/placement/region"):
			fmt.Fprint(w, "eu-central-1")
		default:
			http.NotFound(w, r)
		}
	}))
	defer metadata.Close()
	bin := t.TempDir()
	said := filepath.Join(bin, "said")
	for _, name := range []string{"systemctl", "aws"} {
		script := "#!/bin/sh\necho " + name + " \"$@\" >> " + said + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "aws/lifecycle.sh")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "RFSD_METADATA="+metadata.URL, "RFSD_METADATA_EVERY=0.05")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	<-asked // it looked twice and did nothing
	if b, err := os.ReadFile(said); err == nil {
		t.Fatalf("in service, and yet: %s", b)
	}
	state.Store("Terminated")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	lines := strings.Split(strings.TrimSpace(string(read(t, said))), "\n")
	want := []string{"systemctl stop rfsd.service",
		"aws autoscaling complete-lifecycle-action --lifecycle-hook-name rfsd-hand-over --auto-scaling-group-name rfsd --lifecycle-action-result CONTINUE --instance-id i-0123 --region eu-central-1",
		"systemctl stop rfsd-lifecycle.service"}
	if !slices.Equal(lines, want) {
		t.Errorf("it did\n%s", strings.Join(lines, "\n"))
	}
}

// packageFor builds both packages from the tree as it is and gives their directory.
func packageFor(t *testing.T) string {
	t.Helper()
	if os.Getenv("RFSD_PACKAGES") != "1" {
		t.Skip("not run: RFSD_PACKAGES=1 builds and installs the packages (make packages-test)")
	}
	run(t, "make", "-C", "..", "packages", "VERSION=v0.0.1")
	return "../dist"
}

func TestThePackageInstallsInAFreshDebian(t *testing.T) {
	dist := packageFor(t)
	if os.Getuid() != 0 {
		t.Skip("not run: debootstrap and chroot need root")
	}
	need(t, "debootstrap")
	root := os.Getenv("RFSD_DEBIAN_ROOT") // kept between runs when named
	if root == "" {
		root = filepath.Join(t.TempDir(), "root")
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/dpkg")); err != nil {
		mirror := os.Getenv("RFSD_DEBIAN_MIRROR")
		args := []string{"--variant=minbase", "--include=systemd,ca-certificates", "bookworm", root}
		if mirror != "" {
			args = append(args, mirror)
		}
		if out, err := exec.CommandContext(t.Context(), "debootstrap", args...).CombinedOutput(); err != nil {
			t.Skipf("not run: no Debian root: %v: %s", err, out[max(0, len(out)-300):])
		}
	}
	proc := filepath.Join(root, "proc")
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "proc", "proc", proc).CombinedOutput(); err != nil {
		t.Skipf("not run: /proc cannot be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", proc).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	debs, err := filepath.Glob(dist + "/rfsd_0.0.1*.deb")
	if err != nil || len(debs) != 1 {
		t.Fatalf("packages %v, %v", debs, err)
	}
	copyTo(t, debs[0], filepath.Join(root, "rfsd.deb"))
	in := func(args ...string) string { t.Helper(); return run(t, "chroot", append([]string{root}, args...)...) }
	in("dpkg", "-i", "/rfsd.deb")
	in("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/rfsd.service")
	if out := in("sh", "-c", "getent group rfsd && stat -c '%U:%G %a' /etc/rfsd /var/lib/rfsd"); !strings.Contains(out, "root:rfsd 750") || !strings.Contains(out, "rfsd:rfsd 750") {
		t.Errorf("group and directories: %s", out)
	}
	for _, program := range []string{"rfsd", "rfsctl"} {
		if out := in(program, "--version"); !strings.Contains(out, "v0.0.1") {
			t.Errorf("%s --version: %s", program, out)
		}
	}
	in("rfsd", "config", "check", "/usr/share/doc/rfsd/rfsd.toml")
	status(t, root)
	in("dpkg", "-r", "rfsd")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/rfsd")); err == nil {
		t.Error("the program is there after the package was removed")
	}
}

// status starts the installed daemon as its user, as systemd would, and asks it as somebody else.
func status(t *testing.T, root string) {
	t.Helper()
	in := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "chroot", append([]string{root}, args...)...)
	}
	if out, err := in("install", "-d", "-o", "rfsd", "-g", "rfsd", "-m", "0755", "/run/rfsd").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	// Nothing listens on the discard port: a node answers while its target is out of reach.
	daemon := exec.CommandContext(t.Context(), "chroot", "--userspec=rfsd:rfsd", root, "/usr/bin/rfsd", "run", "--target-host", "http://127.0.0.1:9",
		"--repo-uri", "file:///var/lib/rfsd/snapshots", "--snapshot-name", "none", "--node-name", "fresh")
	daemon.Env = []string{"RUNTIME_DIRECTORY=/run/rfsd", "HOME=/var/lib/rfsd", "PATH=/usr/bin:/bin"}
	var log bytes.Buffer
	daemon.Stdout, daemon.Stderr = io.Discard, &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = daemon.Process.Signal(os.Interrupt)
		_ = daemon.Wait()
	}()
	deadline, tick := time.After(2*time.Minute), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for {
		if info, err := os.Stat(filepath.Join(root, "run/rfsd/status.sock")); err == nil && info.Mode()&0o666 == 0o666 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("no socket after 20 s\n%s", &log)
		case <-tick.C:
		}
	}
	nobody := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "chroot", append([]string{"--userspec=nobody:nogroup", root, "rfsctl"}, args...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := nobody("status"); err != nil || !strings.Contains(out, "node fresh") {
		t.Errorf("rfsctl status as nobody: %v\n%s\n%s", err, out, &log)
	}
	if out, err := nobody("pause"); err == nil || !strings.Contains(out, "reader") {
		t.Errorf("nobody may pause the fleet: %v %s", err, out)
	}
	info, err := os.Stat(filepath.Join(root, "run/rfsd/operator.sock"))
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("operators' socket: %v, %v", info, err)
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	if err := os.WriteFile(to, read(t, from), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The kernel places a position-independent program at random addresses; a static one needs nothing of the machine.
func TestThePackagedProgramsAreStaticPIE(t *testing.T) {
	dist := packageFor(t)
	for _, name := range []string{"rfsd", "rfsctl"} {
		f, err := elf.Open(filepath.Join(dist, runtime.GOARCH, "bin", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Type != elf.ET_DYN {
			t.Errorf("%s is not position-independent: %v", name, f.Type)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s is not static", name)
			}
		}
		if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
			t.Errorf("%s needs %v, %v", name, libs, err)
		}
	}
}

func TestTheRPMHoldsWhatTheDebHolds(t *testing.T) {
	dist := packageFor(t)
	need(t, "rpm")
	rpms, err := filepath.Glob(dist + "/rfsd-0.0.1*.rpm")
	if err != nil || len(rpms) != 1 {
		t.Fatalf("packages %v, %v", rpms, err)
	}
	out := run(t, "rpm", "-qpl", rpms[0])
	for _, name := range []string{"/usr/bin/rfsd", "/usr/bin/rfsctl", "/usr/lib/systemd/system/rfsd.service", "/usr/lib/sysusers.d/rfsd.conf",
		"/usr/lib/tmpfiles.d/rfsd.conf", "/usr/share/rfsd/aws/lifecycle.sh", "/usr/share/man/man1/rfsd-migrate.1.gz", "/usr/share/man/man1/rfsctl-status.1.gz",
		"/usr/share/bash-completion/completions/rfsd", "/usr/share/zsh/site-functions/_rfsctl", "/usr/share/fish/vendor_completions.d/rfsd.fish"} {
		if !strings.Contains(out, name+"\n") {
			t.Errorf("the rpm has no %s", name)
		}
	}
}

// A second clone, with nothing compiled before, makes the same bytes.
func TestPackagesAreReproducible(t *testing.T) {
	if os.Getenv("RFSD_PACKAGES") != "1" {
		t.Skip("not run: RFSD_PACKAGES=1 builds and installs the packages (make packages-test)")
	}
	var sums [2]string
	for i := range sums {
		clone := filepath.Join(t.TempDir(), strings.Repeat("clone", i+1))
		run(t, "git", "clone", "-q", "--no-hardlinks", "..", clone)
		cmd := exec.CommandContext(t.Context(), "make", "-C", clone, "packages", "VERSION=v0.0.1")
		cmd.Env = append(os.Environ(), "GOCACHE="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		sums[i] = string(read(t, filepath.Join(clone, "dist/SHA256SUMS")))
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 4 {
		t.Errorf("two clones made\n%s\n%s", sums[0], sums[1])
	}
}
