package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/testing/cluster"
)

//go:embed lucene/StoredFields.java
var readerSource []byte

//go:embed lucene/pom.xml
var readerPOM []byte

// columnsLucene is the version of Lucene that reads columns.
const columnsLucene = "9.12.3"

// warmUp is the number of times Lucene reads everything before it is measured, so that the JIT has finished.
const warmUp = 8

// luceneRound is the report of one round of Lucene's own reader.
type luceneRound struct {
	Documents   int     `json:"documents"` // live
	SourceBytes int64   `json:"source_bytes"`
	ShardBytes  int64   `json:"shard_bytes"`        // all files of all shards
	StoredBytes int64   `json:"stored_field_bytes"` // files with stored fields
	CPUSeconds  float64 `json:"cpu_seconds"`        // of the process
}

// luceneReader is a process that reads the shards of a snapshot with Lucene repeatedly.
type luceneReader struct {
	s       *source
	version string
	child   *child
	dir     string // directory of the unpacked shards
}

// startLucene compiles the reader if necessary, unpacks the snapshot to a temporary directory, and starts the Lucene generation that wrote
// it, which first reads everything warmUp times.
func startLucene(ctx context.Context, cache string, s *source) (r *luceneReader, err error) {
	lib := filepath.Join(cache, s.Cluster, "lib")
	core, err := filepath.Glob(filepath.Join(lib, "lucene-core-*.jar"))
	if err != nil || len(core) != 1 {
		return nil, fmt.Errorf("lucene of %s: %q: %w", s.Cluster, core, exec.ErrNotFound)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(core[0]), "lucene-core-"), ".jar")
	product, release, _ := strings.Cut(s.Cluster, "-")
	jdk, err := cluster.JDK(product, release)
	if err != nil {
		return nil, err
	}
	home := filepath.Join(cache, "bench", "reader-"+s.Cluster)
	classes, err := compile(ctx, jdk, home, filepath.Join(lib, "*"), "StoredFields.java", readerSource)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rfsd-bench-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	shardDirs, err := unpack(ctx, s.Repo, dir)
	if err != nil {
		return nil, fmt.Errorf("unpacking the snapshot: %w", err)
	}
	args := []string{"-Xmx1g", "-Des.nativelibs.path=" + filepath.Join(lib, "platform", "linux-x64"), "-cp", classes, "StoredFields", strconv.Itoa(warmUp)}
	c, err := startChild(ctx, java(jdk, "java"), append(args, slices.Repeat(shardDirs, max(s.Copies, 1))...)...)
	if err != nil {
		return nil, err
	}
	return &luceneReader{s: s, version: version, child: c, dir: dir}, nil
}

// round reads everything once.
func (r *luceneReader) round() (luceneRound, error) {
	var x luceneRound
	if err := r.child.ask(&x); err != nil {
		return x, fmt.Errorf("reading with Lucene: %w", err)
	}
	if x.Documents != r.s.Documents || x.SourceBytes != r.s.Bytes {
		return x, fmt.Errorf("lucene reads %d documents of %d bytes, indexed were %d of %d", x.Documents, x.SourceBytes, r.s.Documents, r.s.Bytes)
	}
	return x, nil
}

func (r *luceneReader) close() error {
	return errors.Join(r.child.close(), os.RemoveAll(r.dir))
}

// compileReader fetches a version of Lucene through Maven, compiles a reader and returns its class path.
func compileReader(ctx context.Context, home, version, name string, source []byte) (string, error) {
	jars := filepath.Join(home, "jars")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	pom := bytes.Replace(readerPOM, []byte("VERSION"), []byte(version), 1)
	if err := os.WriteFile(filepath.Join(home, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	if found, err := filepath.Glob(filepath.Join(jars, "lucene-core-*.jar")); err != nil || len(found) == 0 {
		mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(home, "pom.xml"), "dependency:copy-dependencies", "-DoutputDirectory="+jars)
		if out, err := mvn.CombinedOutput(); err != nil {
			return "", fmt.Errorf("fetching Lucene: %w: %s", err, tail(out))
		}
	}
	return compile(ctx, os.Getenv("JAVA_HOME"), home, filepath.Join(jars, "*"), name, source)
}

// compile compiles a single-file program with a JDK, or with the one on the path, and returns its class path.
func compile(ctx context.Context, jdk, home, classPath, name string, source []byte) (string, error) {
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(home, name), source, 0o644); err != nil {
		return "", err
	}
	javac := exec.CommandContext(ctx, java(jdk, "javac"), "-d", home, "-cp", classPath, filepath.Join(home, name))
	if out, err := javac.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the Lucene reader: %w: %s", err, tail(out))
	}
	return strings.Join([]string{home, classPath}, string(os.PathListSeparator)), nil
}

// java returns the path of a JDK program; with "" the one on the path.
func java(jdk, program string) string {
	if jdk == "" {
		return program
	}
	return filepath.Join(jdk, "bin", program)
}
