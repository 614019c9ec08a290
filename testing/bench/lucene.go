package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed lucene/StoredFields.java
var readerSource []byte

//go:embed lucene/pom.xml
var readerPOM []byte

// The versions of Lucene that stored fields and columns are read with.
const (
	storedLucene  = "8.7.0" // that of the source
	columnsLucene = "9.12.3"
)

// luceneRounds is how often Lucene reads everything; its best round counts, when the JIT is done.
const luceneRounds = 12

// luceneResult is what Lucene's own reader says about the shards.
type luceneResult struct {
	Documents   int       `json:"documents"` // live
	SourceBytes int64     `json:"source_bytes"`
	ShardBytes  int64     `json:"shard_bytes"`        // all files of all shards
	StoredBytes int64     `json:"stored_field_bytes"` // those that hold stored fields
	CPUSeconds  []float64 `json:"cpu_seconds"`        // of the reading thread, per round
}

// Best is the CPU time of the fastest round in seconds.
func (r *luceneResult) Best() float64 { return slices.Min(r.CPUSeconds) }

// readWithLucene compiles the reader when needed, unpacks the snapshot to a temporary directory and reads it.
func readWithLucene(ctx context.Context, cache string, s *source) (*luceneResult, error) {
	classes, err := compileReader(ctx, filepath.Join(cache, "bench", "lucene-"+storedLucene), storedLucene, "StoredFields.java", readerSource)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rfsd-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shardDirs, err := unpack(ctx, s.Repo, dir)
	if err != nil {
		return nil, fmt.Errorf("unpacking the snapshot: %w", err)
	}
	args := append([]string{"-Xmx512m", "-cp", classes, "StoredFields", strconv.Itoa(luceneRounds)}, shardDirs...)
	out, err := exec.CommandContext(ctx, java("java"), args...).Output()
	if err != nil {
		return nil, fmt.Errorf("reading with Lucene: %w", withStderr(err))
	}
	r := &luceneResult{}
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("reading with Lucene: %w", err)
	}
	if r.Documents != s.Documents || r.SourceBytes != s.Bytes {
		return nil, fmt.Errorf("lucene reads %d documents of %d bytes, indexed were %d of %d", r.Documents, r.SourceBytes, s.Documents, s.Bytes)
	}
	return r, nil
}

// compileReader fetches a version of Lucene through Maven, compiles a reader and returns its class path.
func compileReader(ctx context.Context, home, version, name string, source []byte) (string, error) {
	jars := filepath.Join(home, "jars")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	pom := bytes.Replace(readerPOM, []byte("VERSION"), []byte(version), 1)
	for name, content := range map[string][]byte{"pom.xml": pom, name: source} {
		if err := os.WriteFile(filepath.Join(home, name), content, 0o644); err != nil {
			return "", err
		}
	}
	if found, err := filepath.Glob(filepath.Join(jars, "lucene-core-*.jar")); err != nil || len(found) == 0 {
		mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(home, "pom.xml"), "dependency:copy-dependencies", "-DoutputDirectory="+jars)
		if out, err := mvn.CombinedOutput(); err != nil {
			return "", fmt.Errorf("fetching Lucene: %w: %s", err, tail(out))
		}
	}
	classPath := filepath.Join(jars, "*")
	javac := exec.CommandContext(ctx, java("javac"), "-d", home, "-cp", classPath, filepath.Join(home, name))
	if out, err := javac.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the Lucene reader: %w: %s", err, tail(out))
	}
	return strings.Join([]string{home, classPath}, string(os.PathListSeparator)), nil
}

// java is a program of the JDK: that of JAVA_HOME, or the one on the path.
func java(program string) string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", program)
	}
	return program
}
