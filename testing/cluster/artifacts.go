package cluster

import (
	"archive/zip"
	"bytes"
	"context"
	_ "embed" // the table of JDKs
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// CacheDir returns the directory of assembled servers: $RFSD_CACHE, else /var/cache/rfsd for root (servers run as another user, who cannot
// read root's home), else the user's cache directory.
func CacheDir() (string, error) {
	if dir := os.Getenv("RFSD_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		return "/var/cache/rfsd", nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "rfsd"), err
}

// assembled returns the cache directory with that name. If it does not exist, build fills it first. Concurrent processes wait for each
// other and never see an incomplete directory.
func assembled(name string, build func(dir string) error) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "."+name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	half, err := os.MkdirTemp(cache, "."+name+"-")
	if err != nil {
		return "", err
	}
	err = os.Chmod(half, 0o755)
	if err == nil {
		err = build(half)
	}
	if err == nil { // servers expect it and may not create it there
		err = os.MkdirAll(filepath.Join(half, "plugins"), 0o755)
	}
	if err == nil {
		err = os.Rename(half, dir)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(half))
	}
	return dir, nil
}

// ready reports whether a server was assembled before.
func ready(product, version string) bool {
	cache, err := CacheDir()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(cache, product+"-"+version))
	return err == nil
}

// coordinate is one Maven artifact: group:artifact:version[:type].
type coordinate string

func (c coordinate) xml() string {
	f := strings.Split(string(c), ":")
	tags := []string{"groupId", "artifactId", "version", "type"}
	var b strings.Builder
	b.WriteString("<dependency>")
	for i, v := range f {
		fmt.Fprintf(&b, "<%s>", tags[i])
		_ = xml.EscapeText(&b, []byte(v)) // a strings.Builder returns no errors
		fmt.Fprintf(&b, "</%s>", tags[i])
	}
	b.WriteString("</dependency>")
	return b.String()
}

const projectHead = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>`

// fetch copies the artifacts of each part, with their runtime dependencies, into dir/part/jars. It runs the ordinary mvn client with the
// user's settings.
func fetch(ctx context.Context, dir string, parts map[string][]coordinate) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("mvn (Apache Maven) is not installed: %w; %s", ErrMissing, remedy)
	}
	var top strings.Builder
	top.WriteString(projectHead + "<groupId>rfsd</groupId><artifactId>fetch</artifactId><version>1</version><packaging>pom</packaging><modules>")
	for name, coordinates := range parts {
		top.WriteString("<module>" + name + "</module>")
		pom := projectHead + "<parent><groupId>rfsd</groupId><artifactId>fetch</artifactId><version>1</version></parent>" +
			"<artifactId>part-" + name + "</artifactId><packaging>pom</packaging><dependencies>"
		for _, c := range coordinates {
			pom += c.xml()
		}
		if err := write(filepath.Join(dir, name, "pom.xml"), pom+"</dependencies></project>\n"); err != nil {
			return err
		}
	}
	top.WriteString("</modules></project>\n")
	if err := write(filepath.Join(dir, "pom.xml"), top.String()); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn dependency:copy-dependencies: %w: %s", err, bytes.TrimSpace(out[max(0, len(out)-3000):]))
	}
	return nil
}

func write(name, content string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(content), 0o644)
}

// unzip extracts the files of an archive for which want returns true, without the first strip elements of their paths.
func unzip(archive, dir string, strip int, want func(name string) bool) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	defer z.Close() //nolint:errcheck // only read
	for _, f := range z.File {
		parts := strings.SplitN(f.Name, "/", strip+1)
		name := parts[len(parts)-1]
		if len(parts) <= strip || name == "" || strings.HasSuffix(name, "/") || want != nil && !want(name) {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%s: entry %q leaves the directory", archive, f.Name)
		}
		if err := extract(f, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
	return nil
}

func extract(f *zip.File, to string) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return pour(in, to, f.Mode().Perm()|0o644)
}

// copyFile copies a file unless the copy exists.
func copyFile(from, to string) error {
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return pour(in, to, 0o644)
}

func pour(in io.Reader, to string, mode fs.FileMode) error {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// jdkTable lists where JDKs are looked for; testing/setup.sh reads the same file.
//
//go:embed jdks.txt
var jdkTable string

// jdkHomes returns the directories that may be JDKs: $JAVA_HOME, then the patterns of $RFSD_JDKS or of the table.
func jdkHomes() (homes, looked []string, err error) {
	if h := os.Getenv("JAVA_HOME"); h != "" {
		homes, looked = append(homes, h), append(looked, h)
	}
	patterns := strings.Split(jdkTable, "\n")
	if own := os.Getenv("RFSD_JDKS"); own != "" {
		patterns = strings.Split(own, ":")
	}
	for _, p := range patterns {
		if p == "" || strings.HasPrefix(p, "#") {
			continue
		}
		found, err := filepath.Glob(p)
		if err != nil {
			return nil, nil, fmt.Errorf("pattern %q of directories of JDKs: %w", p, err)
		}
		for _, h := range found {
			if !strings.HasPrefix(filepath.Base(h), ".") { // shell patterns do not match hidden files, Go's do
				homes = append(homes, h)
			}
		}
		looked = append(looked, p)
	}
	return homes, looked, nil
}

// remedy is the command that installs what a node needs.
const remedy = "run as root: testing/setup.sh packages"

// javaHome returns the directory of a JDK with a version from low to high.
func javaHome(low, high int) (string, error) {
	homes, looked, err := jdkHomes()
	if err != nil {
		return "", err
	}
	for _, h := range homes {
		b, err := os.ReadFile(filepath.Join(h, "release"))
		if err != nil {
			continue
		}
		_, v, _ := strings.Cut(string(b), `JAVA_VERSION="`)
		n, err := strconv.Atoi(v[:len(v)-len(strings.TrimLeft(v, "0123456789"))])
		if err != nil || n < low || n > high {
			continue
		}
		if _, err := os.Stat(filepath.Join(h, "bin", "javac")); err == nil {
			return h, nil
		}
	}
	return "", fmt.Errorf("no JDK from %d to %d in %s: %w; %s", low, high, strings.Join(looked, ", "), ErrMissing, remedy)
}
