package repo_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/repotest"
	"github.com/rfsd/rfsd/testing/s3server"
)

func store(t *testing.T, dir string, blobs map[string][]byte) {
	t.Helper()
	for name, b := range blobs {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDirectoryKeepsTheContract(t *testing.T) {
	repotest.Run(t, func(t *testing.T, blobs map[string][]byte) repotest.Repository {
		dir := t.TempDir()
		store(t, dir, blobs)
		r, err := repo.Open(t.Context(), "file://"+dir, repo.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}

func TestDecoratorsKeepTheContract(t *testing.T) {
	repotest.Run(t, func(t *testing.T, blobs map[string][]byte) repotest.Repository {
		dir := t.TempDir()
		store(t, dir, blobs)
		d, err := repo.NewDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		// Chunks and a budget so small that every path of the read-ahead is taken.
		return repo.NewCounting(repo.NewReadAhead(repo.NewRetrying(d, retry.Policy{}),
			repo.ReadAheadOptions{Chunk: 10_000, Depth: 3, Budget: 70_000}))
	})
}

func s3Options(s s3server.Server) repo.Options {
	return repo.Options{S3: repo.S3Options{Endpoint: s.Endpoint, Region: s.Region, PathStyle: true}}
}

func TestWrongCredentialsAndBucketsAreConfiguration(t *testing.T) {
	dir := t.TempDir()
	store(t, filepath.Join(dir, "bucket"), map[string][]byte{"index-0": []byte("{}")})
	server := s3server.Start(t, dir)
	server.Setenv(t)
	try := func(uri string) error {
		r, err := repo.Open(t.Context(), uri, s3Options(server))
		if err != nil {
			return err
		}
		_, err = repo.ReadAll(t.Context(), r, "index-0", 100)
		return err
	}
	if err := try("s3://bucket"); err != nil {
		t.Fatal(err)
	}
	if err := try("s3://other-bucket"); !errors.Is(err, fault.ErrConfig) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such bucket: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	if err := try("s3://bucket"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("wrong key: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	if err := try("s3://bucket"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("no key: %v", err)
	}
}

func TestUnknownURIsAreConfiguration(t *testing.T) {
	for _, uri := range []string{"", "file://relative", "s3://", "s3:///prefix", "/not/there", "ftp://x/y", "gs://", "gs:///x", "azblob://"} {
		if _, err := repo.Open(t.Context(), uri, repo.Options{S3: repo.S3Options{Region: "x"}}); uri != "" && !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%q: %v", uri, err)
		}
	}
}

func TestLinksAndPipesAreNoWayOut(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	store(t, outside, map[string][]byte{"secret": []byte("x")})
	store(t, dir, map[string][]byte{"inside": []byte("y")})
	for link, to := range map[string]string{"out": filepath.Join(outside, "secret"), "outdir": outside, "in": "inside"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Skip(err)
	}
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"out", "outdir/secret", "pipe"} {
		if b, err := repo.ReadAll(t.Context(), r, name, 100); err == nil {
			t.Errorf("%s can be read: %q", name, b)
		}
	}
	if b, err := repo.ReadAll(t.Context(), r, "in", 100); err != nil || string(b) != "y" {
		t.Errorf("a link within the repository: %q, %v", b, err)
	}
}

func TestReadAllIsBounded(t *testing.T) {
	dir := t.TempDir()
	store(t, dir, map[string][]byte{"b": make([]byte, 100)})
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := repo.ReadAll(t.Context(), r, "b", 100); err != nil || len(b) != 100 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := repo.ReadAll(t.Context(), r, "b", 99); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("longer than the limit: %v", err)
	}
}

func TestCountingSeesEveryRequestAndByte(t *testing.T) {
	dir := t.TempDir()
	store(t, dir, map[string][]byte{"a": make([]byte, 100), "b": make([]byte, 50)})
	d, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := repo.NewCounting(d)
	var log []repo.Request
	c.Log(&log)
	for _, name := range []string{"a", "b"} {
		if _, err := repo.ReadAll(t.Context(), c, name, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Stat(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for range c.List(t.Context(), "a") {
		continue
	}
	if n, b := c.Totals(); n != 4 || b != 150 || len(log) != 4 || log[3] != (repo.Request{Verb: "list", Name: "a"}) {
		t.Errorf("%d requests, %d bytes, %v", n, b, log)
	}
}

func BenchmarkReadAhead(b *testing.B) {
	dir := b.TempDir()
	content := bytes.Repeat([]byte("0123456789abcdef"), 4<<20)
	if err := os.WriteFile(filepath.Join(dir, "blob"), content, 0o644); err != nil {
		b.Fatal(err)
	}
	d, err := repo.NewDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for name, r := range map[string]repo.Repository{"directory": d, "ahead": repo.NewReadAhead(d, repo.ReadAheadOptions{})} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				rc, err := r.Open(context.Background(), "blob", 0, int64(len(content)))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, rc); err != nil {
					b.Fatal(err)
				}
				rc.Close()
			}
		})
	}
}

func BenchmarkRealS3Server(b *testing.B) {
	dir := b.TempDir()
	content := bytes.Repeat([]byte("0123456789abcdef"), 8<<20)
	if err := os.MkdirAll(filepath.Join(dir, "bucket"), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bucket", "blob"), content, 0o644); err != nil {
		b.Fatal(err)
	}
	server := s3server.Start(b, dir)
	b.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	b.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	s3, err := repo.NewS3(b.Context(), "s3://bucket", s3Options(server).S3)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		r    repo.Repository
	}{{"one stream", s3}, {"ahead", repo.NewReadAhead(s3, repo.ReadAheadOptions{})}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				rc, err := c.r.Open(b.Context(), "blob", 0, int64(len(content)))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, rc); err != nil {
					b.Fatal(err)
				}
				rc.Close()
			}
		})
	}
}

func TestAboveIsOneLevelUpInTheSameStore(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for given, want := range map[string]string{
		"s3://bucket/a/b/c": "s3://bucket/a/b",
		"s3://bucket/a/":    "s3://bucket",
		"s3://bucket":       "",
		"file:///usr/bin":   "file:///usr",
		"file:///":          "",
	} {
		r, err := repo.Open(t.Context(), given, repo.Options{S3: repo.S3Options{Region: "r", Endpoint: "http://127.0.0.1:1", PathStyle: true}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if above, ok := r.(interface {
			Above() (repo.Repository, bool)
		}).Above(); ok {
			got = above.URI()
		}
		if strings.TrimSuffix(got, "/") != want {
			t.Errorf("above %s: %q, want %q", given, got, want)
		}
	}
}
