package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// untar writes an archive below a folder.
func untar(t *testing.T, r io.Reader, dir string) {
	t.Helper()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if h.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(path, 0o755))
		} else {
			b, err := io.ReadAll(tr)
			must(t, err)
			must(t, os.WriteFile(path, b, 0o600))
		}
		must(t, os.Lchown(path, h.Uid, h.Gid))
		must(t, os.Chmod(path, h.FileInfo().Mode()))
	}
}

// TestImage_RunsAsItsUser: the root of the image has all that the programs need. Nothing runs in it but them.
func TestImage_RunsAsItsUser(t *testing.T) {
	notShort(t)
	if os.Getuid() != 0 {
		t.Skip("not run: only root can change the root directory")
	}
	dir := t.TempDir()
	programs := filepath.Join(dir, "programs", "bin")
	must(t, os.MkdirAll(programs, 0o755))
	for _, name := range []string{"rfsd", "rfsctl"} {
		b, err := os.ReadFile(Binary(t, name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(programs, name), b, 0o755))
	}
	archive := filepath.Join(dir, "image.tar")
	build := exec.CommandContext(t.Context(), "go", "run", "./deploy/image", "-version", "9.9.9", "-out", archive, runtime.GOARCH+"="+filepath.Dir(programs))
	build.Dir = Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close() //nolint:errcheck // it is only read
	at := filepath.Join(dir, "layout")
	untar(t, f, at)
	path, err := layout.FromPath(at)
	must(t, err)
	outer, err := path.ImageIndex()
	must(t, err)
	is, err := outer.IndexManifest()
	must(t, err)
	index, err := outer.ImageIndex(is.Manifests[0].Digest)
	must(t, err)
	all, err := index.IndexManifest()
	must(t, err)
	img, err := index.Image(all.Manifests[0].Digest)
	must(t, err)
	conf, err := img.ConfigFile()
	must(t, err)
	root := filepath.Join(dir, "root")
	untar(t, mutate.Extract(img), root)
	must(t, os.CopyFS(filepath.Join(root, "repository"), os.DirFS(fixture(t, "7.10.2-demo"))))

	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), conf.Config.Entrypoint[0], args...)
		cmd.Dir, cmd.Env = conf.Config.WorkingDir, conf.Config.Env
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return out.String(), err
	}
	for _, args := range [][]string{
		{"version"}, conf.Config.Cmd,
		{"migrate", "--repo-uri", "/repository", "--snapshot-name", "snap1", "--export-dir", "out"},
		{"migrate", "--repo-uri", "/repository", "--snapshot-name", "snap1", "--discard"},
	} {
		if out, err := run(args...); err != nil {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	if found, err := filepath.Glob(filepath.Join(root, "var/lib/rfsd/out/*")); err != nil || len(found) < 2 {
		t.Errorf("exported: %q, %v", found, err)
	}
}
