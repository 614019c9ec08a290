// Command image packs the programs into an OCI image without a container daemon: an archive of an OCI layout, for several architectures.
// The same programs, version and time make the same bytes.
//
// The image has no shell and no other program: rfsd and rfsctl, the certificate authorities of Mozilla (the module x509roots, whose
// version go.mod fixes), a user without privileges (65532), /tmp, and the home of that user, /var/lib/rfsd.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/rfsd/rfsd/rfs/base/files"
)

func main() {
	var o options
	flag.StringVar(&o.version, "version", "dev", "version of the programs")
	created := flag.Int64("created", 0, "time of the image, in seconds since 1970")
	flag.StringVar(&o.out, "out", "rfsd-image.tar", "archive to write")
	flag.Parse()
	o.created = time.Unix(*created, 0).UTC()
	if err := run(o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type options struct {
	version, out string
	created      time.Time
}

// userID is the number of the user of the image, as in other images without a shell.
const userID = 65532

// run writes the image of each ARCH=FOLDER, which holds the programs, and the licences of their modules if there are any.
func run(o options, folders []string) error {
	if len(folders) == 0 {
		return errors.New("want ARCH=FOLDER of the programs, such as amd64=dist/amd64")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, f := range folders {
		arch, folder, ok := strings.Cut(f, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCH=FOLDER", f)
		}
		img, err := image(o, arch, folder)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		platform := &v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	}
	named := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{
		Annotations: map[string]string{"org.opencontainers.image.ref.name": tag(o.version), "io.containerd.image.name": "rfsd:" + tag(o.version)},
	}})
	dir, err := os.MkdirTemp("", "rfsd-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // only temporary files
	if _, err := layout.Write(dir, named); err != nil {
		return err
	}
	return archive(o.out, dir, o.created)
}

// tag returns a version as the tag of an image: "+" is not permitted there.
func tag(version string) string { return strings.ReplaceAll(version, "+", "-") }

// image returns the image of an architecture.
func image(o options, arch, folder string) (v1.Image, error) {
	system, err := layer(o.created, func(w *tree) error {
		w.folder("etc/ssl/certs", 0o755, 0)
		w.file("etc/ssl/certs/ca-certificates.crt", 0o644, authorities())
		w.file("etc/passwd", 0o644, fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nrfsd:x:%[1]d:%[1]d:rfsd:/var/lib/rfsd:/sbin/nologin\n", userID))
		w.file("etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\nrfsd:x:%d:\n", userID))
		w.folder("etc/rfsd", 0o755, 0)
		w.folder("tmp", fs.ModeSticky|0o777, 0)
		w.folder("var/lib/rfsd", 0o750, userID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	programs, err := layer(o.created, func(w *tree) error {
		w.folder("usr/bin", 0o755, 0)
		for _, name := range []string{"rfsd", "rfsctl"} {
			b, err := os.ReadFile(filepath.Join(folder, "bin", name))
			if err != nil {
				return err
			}
			w.file("usr/bin/"+name, 0o755, b)
		}
		licences, err := os.ReadFile(filepath.Join(folder, "LICENCES.txt"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		w.folder("usr/share/doc/rfsd", 0o755, 0)
		w.file("usr/share/doc/rfsd/LICENCES.txt", 0o644, licences)
		return err
	})
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), system, programs)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, configOf(img, o, arch))
}

// configOf returns the configuration of an image with these layers.
func configOf(img v1.Image, o options, arch string) *v1.ConfigFile {
	is, err := img.ConfigFile()
	if err != nil { // it is in memory
		panic(err)
	}
	c := is.DeepCopy()
	c.OS, c.Architecture, c.Created = "linux", arch, v1.Time{Time: o.created}
	c.History = []v1.History{{Created: c.Created, CreatedBy: "certificate authorities, user and folders"}, {Created: c.Created, CreatedBy: "rfsd " + o.version}}
	c.Config = v1.Config{
		User: fmt.Sprintf("%[1]d:%[1]d", userID), WorkingDir: "/var/lib/rfsd", Entrypoint: []string{"/usr/bin/rfsd"}, Cmd: []string{"--help"},
		Env:          []string{"PATH=/usr/bin", "HOME=/var/lib/rfsd", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		ExposedPorts: map[string]struct{}{"9310/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "rfsd", "org.opencontainers.image.version": o.version, "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.description": "Migrates Elasticsearch and OpenSearch clusters to OpenSearch by reading snapshots",
		},
	}
	return c
}

// authorities returns the certificates of Mozilla's list in PEM. Ones with constraints that a certificate cannot hold are left out.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // into memory
		}
	}
	return b.Bytes()
}

// tree is the files of a layer, all of one time.
type tree struct {
	tar  *tar.Writer
	time time.Time
	made map[string]bool
	err  error
}

// layer returns the layer of the files that fill writes.
func layer(created time.Time, fill func(*tree) error) (v1.Layer, error) {
	var b bytes.Buffer
	w := &tree{tar: tar.NewWriter(&b), time: created, made: map[string]bool{".": true}}
	if err := errors.Join(fill(w), w.err, w.tar.Close()); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9))
}

// folder adds a folder of an owner, and those above it.
func (w *tree) folder(path string, mode fs.FileMode, owner int) {
	if w.made[path] {
		return
	}
	w.folder(filepath.Dir(path), 0o755, 0)
	w.made[path] = true
	bits := int64(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	w.header(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: bits, Uid: owner, Gid: owner})
}

// file adds a file of root.
func (w *tree) file(path string, mode int64, content []byte) {
	w.folder(filepath.Dir(path), 0o755, 0)
	w.header(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(content))})
	if w.err == nil {
		_, w.err = w.tar.Write(content)
	}
}

func (w *tree) header(h *tar.Header) {
	h.ModTime, h.Format = w.time, tar.FormatUSTAR
	if w.err == nil {
		w.err = w.tar.WriteHeader(h)
	}
}

// archive writes a folder as a tar file, in the order of the names.
func archive(path, dir string, created time.Time) error {
	f, err := files.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	w := &tree{tar: tar.NewWriter(f), time: created, made: map[string]bool{".": true}}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		w.file(filepath.ToSlash(name), 0o644, b)
		return errors.Join(err, w.err)
	})
	return errors.Join(err, w.tar.Close(), f.Close())
}
