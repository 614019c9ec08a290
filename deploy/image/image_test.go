package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// programs returns a folder with files in the place of the programs.
func programs(t *testing.T, arch string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/rfsd", "bin/rfsctl", "LICENCES.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+" of "+arch), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return arch + "=" + dir
}

// unpacked returns the files of a tar archive.
func unpacked(t *testing.T, r io.Reader) map[string]tar.Header {
	t.Helper()
	all := map[string]tar.Header{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		h.Linkname = string(b) // where tests find the content
		all[h.Name] = *h
	}
}

// TestRun_WritesAnImageOfEachArchitecture that every reader of OCI layouts takes; twice the same bytes.
func TestRun_WritesAnImageOfEachArchitecture(t *testing.T) {
	folders := []string{programs(t, "amd64"), programs(t, "arm64")}
	o := options{version: "0.1.0+20261127", created: time.Unix(1_700_000_000, 0).UTC()}
	var archives [2][]byte
	for i := range archives {
		o.out = filepath.Join(t.TempDir(), "image.tar")
		if err := run(o, folders); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(o.out)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = b
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same programs differ")
	}
	dir := t.TempDir()
	for name, h := range unpacked(t, bytes.NewReader(archives[0])) {
		if h.Typeflag == tar.TypeReg {
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(h.Linkname), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Fatal(err)
	}
	is, err := outer.IndexManifest()
	if err != nil || len(is.Manifests) != 1 || is.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "0.1.0-20261127" {
		t.Fatalf("%+v, %v", is, err)
	}
	index, err := outer.ImageIndex(is.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	all, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range all.Manifests {
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, m.Platform.String())
		checkImage(t, img, m.Platform.Architecture)
	}
	if !slices.Equal(found, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("%q", found)
	}
}

func checkImage(t *testing.T, img v1.Image, arch string) {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.Architecture != arch || c.Config.User != "65532:65532" || !slices.Equal(c.Config.Entrypoint, []string{"/usr/bin/rfsd"}) || c.Created.Unix() != 1_700_000_000 {
		t.Errorf("%+v", c)
	}
	files := unpacked(t, mutate.Extract(img))
	for name, want := range map[string]struct {
		mode  int64
		owner int
	}{"usr/bin/rfsd": {0o755, 0}, "usr/bin/rfsctl": {0o755, 0}, "tmp/": {0o1777, 0}, "var/lib/rfsd/": {0o750, 65532}, "etc/passwd": {0o644, 0}} {
		if h, ok := files[strings.TrimSuffix(name, "/")]; ok {
			files[name] = h
		}
		h, ok := files[name]
		if !ok || h.Mode&0o7777 != want.mode || h.Uid != want.owner || h.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if got := files["usr/bin/rfsctl"].Linkname; got != "bin/rfsctl of "+arch {
		t.Errorf("rfsctl is %q", got)
	}
	pool := x509.NewCertPool()
	if pem := files["etc/ssl/certs/ca-certificates.crt"].Linkname; !pool.AppendCertsFromPEM([]byte(pem)) || strings.Count(pem, "BEGIN CERTIFICATE") < 100 {
		t.Errorf("%d certificate authorities", strings.Count(pem, "BEGIN CERTIFICATE"))
	}
}

func TestRun_NamesWhatIsMissing(t *testing.T) {
	for _, folders := range [][]string{nil, {"amd64"}, {"amd64=" + t.TempDir()}} {
		if err := run(options{out: filepath.Join(t.TempDir(), "x")}, folders); err == nil {
			t.Errorf("%q", folders)
		}
	}
}
