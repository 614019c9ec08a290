package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// packageFor builds both packages from the tree as it is and gives their directory.
func packageFor(t *testing.T) string {
	t.Helper()
	if os.Getenv("RFSD_PACKAGES") != "1" {
		t.Skip("not run: RFSD_PACKAGES=1 builds and installs the packages (make packages-test)")
	}
	run(t, "make", "-C", "..", "packages", "VERSION=v0.0.1")
	return "../dist"
}

// debian makes a minimal Debian, or takes the one that RFSD_DEBIAN_ROOT names, and makes it when there is none. It stays as it is.
func debian(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not run: debootstrap and chroot need root")
	}
	need(t, "debootstrap")
	root := os.Getenv("RFSD_DEBIAN_ROOT")
	if root == "" {
		root = filepath.Join(t.TempDir(), "debian")
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/dpkg")); err == nil {
		return root
	}
	args := []string{"--variant=minbase", "--include=systemd,ca-certificates", "bookworm", root}
	if mirror := os.Getenv("RFSD_DEBIAN_MIRROR"); mirror != "" {
		args = append(args, mirror)
	}
	if out, err := exec.CommandContext(t.Context(), "debootstrap", args...).CombinedOutput(); err != nil {
		t.Skipf("not run: no Debian root: %v: %s", err, out[max(0, len(out)-300):])
	}
	return root
}

// fresh copies a root for one test and mounts its /proc.
func fresh(t *testing.T, debian string) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "root")
	run(t, "cp", "-a", debian, root)
	proc := filepath.Join(root, "proc")
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "proc", "proc", proc).CombinedOutput(); err != nil {
		t.Skipf("not run: /proc cannot be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", proc).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return root
}

// one returns the only file of a pattern.
func one(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) != 1 {
		t.Fatalf("%s: %v, %v", pattern, names, err)
	}
	return names[0]
}

// TestThePackagesInstallInAFreshDebian installs each package, runs the programs as their user, and removes it.
func TestThePackagesInstallInAFreshDebian(t *testing.T) {
	dist := packageFor(t)
	base := debian(t)
	t.Run("deb", func(t *testing.T) {
		root := fresh(t, base)
		copyTo(t, one(t, dist+"/rfsd_0.0.1*.deb"), filepath.Join(root, "rfsd.deb"))
		run(t, "chroot", root, "dpkg", "-i", "/rfsd.deb")
		installed(t, root)
		run(t, "chroot", root, "dpkg", "-r", "rfsd")
		removed(t, root)
	})
	t.Run("rpm", func(t *testing.T) {
		need(t, "rpm")
		root := fresh(t, base)
		args := []string{"--root", root, "--nodeps"} // the packages of the root are no rpms
		if strings.Contains(run(t, "rpm", "--help"), "--force-debian") {
			args = append(args, "--force-debian")
		}
		run(t, "rpm", append(args, "-i", one(t, dist+"/rfsd-0.0.1*.rpm"))...)
		installed(t, root)
		run(t, "rpm", append(args, "-e", "rfsd")...)
		removed(t, root)
	})
}

// installed checks what a package left in a root.
func installed(t *testing.T, root string) {
	t.Helper()
	in := func(args ...string) string { t.Helper(); return run(t, "chroot", append([]string{root}, args...)...) }
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
}

func removed(t *testing.T, root string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "usr/bin/rfsd")); err == nil {
		t.Error("the program is there after the package was removed")
	}
}

// status starts the installed daemon as its user, as systemd would, and asks it as another user.
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
	need(t, "dpkg-deb")
	rpm, dir := one(t, dist+"/rfsd-0.0.1*.rpm"), t.TempDir()
	run(t, "dpkg-deb", "-x", one(t, dist+"/rfsd_0.0.1*.deb"), dir)
	var of [2][]string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.Contains(path, "/lintian/") { // what lintian is told
			return nil
		}
		info, err := d.Info()
		of[0] = append(of[0], fmt.Sprintf("/%s %x %o root", strings.TrimPrefix(path, dir+"/"), sha256.Sum256(read(t, path)), info.Mode().Perm()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(run(t, "rpm", "-qp", "--qf", `[%{FILENAMES} %{FILEDIGESTS} %{FILEMODES:octal} %{FILEUSERNAME}\n]`, rpm)) {
		if !strings.Contains(line, " 40755 ") { // a directory
			of[1] = append(of[1], strings.Replace(strings.TrimSpace(line), " 100", " ", 1))
		}
	}
	slices.Sort(of[0])
	slices.Sort(of[1])
	if len(of[0]) < 60 || !slices.Equal(of[0], of[1]) {
		t.Errorf("the deb holds\n%s\nthe rpm\n%s", strings.Join(of[0], "\n"), strings.Join(of[1], "\n"))
	}
	for tag, file := range map[string]string{"POSTIN": "postinstall.sh", "PREUN": "preremove.sh"} {
		if script := run(t, "rpm", "-qp", "--qf", "%{"+tag+"}", rpm); strings.TrimSpace(script) != strings.TrimSpace(string(read(t, "package/"+file))) {
			t.Errorf("%s: %s", tag, script)
		}
	}
}

// TestTheCheckersOfPackagesFindNothing: each finding that stays is explained in package/lintian-overrides or package/rpmlint.toml.
func TestTheCheckersOfPackagesFindNothing(t *testing.T) {
	dist := packageFor(t)
	t.Run("lintian", func(t *testing.T) {
		need(t, "lintian")
		if said := run(t, "lintian", "--allow-root", "--fail-on", "error,warning", one(t, dist+"/rfsd_0.0.1*.deb")); said != "" {
			t.Error(said)
		}
	})
	t.Run("rpmlint", func(t *testing.T) {
		need(t, "rpmlint")
		if said := run(t, "rpmlint", "-c", "package/rpmlint.toml", one(t, dist+"/rfsd-0.0.1*.rpm")); !strings.Contains(said, " 0 errors, 0 warnings") {
			t.Error(said)
		}
	})
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
