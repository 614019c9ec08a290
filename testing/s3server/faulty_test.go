package s3server_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/s3server"
)

// TestNothingIsLostWhenThreeRequestsOfTenFail reads all blobs and all documents of real
// repositories through a real S3 server that fails in every way, and compares them with
// what a directory gives.
func TestNothingIsLostWhenThreeRequestsOfTenFail(t *testing.T) {
	zips, err := filepath.Glob(filepath.Join("..", "..", "rfs", "source", "snapshot", "testdata", "*.zip"))
	if err != nil || len(zips) == 0 {
		t.Fatalf("no repositories: %v", err)
	}
	root := t.TempDir()
	for _, z := range zips {
		extract(t, z, filepath.Join(root, "bucket", "of", filepath.Base(z)))
	}
	server, counts := s3server.Start(t, root).Faulty(t, 30, "a seed")
	server.Setenv(t)
	for _, z := range zips {
		name := filepath.Base(z)
		dir, err := repo.NewDir(filepath.Join(root, "bucket", "of", name))
		if err != nil {
			t.Fatal(err)
		}
		s3, err := repo.NewS3(t.Context(), "s3://bucket/of/"+name, repo.S3Options{Region: server.Region, Endpoint: server.Endpoint, PathStyle: true})
		if err != nil {
			t.Fatal(err)
		}
		policy := retry.Policy{Tries: 12, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
		// Chunks so small that files of some kilobytes are fetched ahead.
		weak := repo.NewReadAhead(repo.NewRetrying(s3, policy), repo.ReadAheadOptions{Chunk: 2048, Depth: 3, Budget: 9 * 2048})
		want, n := blobs(t, dir)
		if got, m := blobs(t, weak); got != want || m != n || n == 0 {
			t.Errorf("%s: %d blobs are other bytes than the %d of the directory", name, m, n)
		}
		want, n = documents(t, dir)
		if got, m := documents(t, weak); got != want || m != n || n == 0 {
			t.Errorf("%s: %d documents are others than the %d of the directory", name, m, n)
		}
	}
	f := counts()
	t.Logf("%+v", f)
	if f.Requests == 0 || f.Sum()*100/f.Requests < 20 || f.Errors == 0 || f.Drops == 0 || f.Cuts == 0 {
		t.Errorf("the server was not as bad as it should be: %+v", f)
	}
}

func TestAServerThatAlwaysFailsIsUnavailable(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	server, counts := s3server.Start(t, root).Faulty(t, 100, "any")
	server.Setenv(t)
	s3, err := repo.NewS3(t.Context(), "s3://bucket", repo.S3Options{Region: server.Region, Endpoint: server.Endpoint, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	policy := retry.Policy{Tries: 5, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	if _, err := snapshot.OpenCatalog(t.Context(), repo.NewRetrying(s3, policy)); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if f := counts(); f.Sum() != f.Requests || f.Requests < 5 {
		t.Errorf("%+v", f)
	}
}

func extract(t *testing.T, from, to string) {
	t.Helper()
	z, err := zip.OpenReader(from)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if err := os.CopyFS(to, z); err != nil {
		t.Fatal(err)
	}
}

// blobs gives a digest of all names and bytes, and their number.
func blobs(t *testing.T, r repo.Repository) (sum uint64, n int) {
	t.Helper()
	for blob, err := range r.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		rc, err := r.Open(t.Context(), blob.Name, 0, blob.Size)
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New64a()
		fmt.Fprintln(h, blob.Name, blob.Size)
		if _, err := io.Copy(h, rc); err != nil {
			t.Fatalf("%s: %v", blob.Name, err)
		}
		rc.Close()
		sum += h.Sum64()
		n++
	}
	return sum, n
}

// documents gives a digest of the sources of all documents of all snapshots, and their number.
func documents(t *testing.T, r repo.Repository) (sum uint64, n int) {
	t.Helper()
	ctx := t.Context()
	catalog, err := snapshot.OpenCatalog(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range catalog.Snapshots {
		s, err := catalog.Snapshot(ctx, ref.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range s.Indices {
			index, err := s.Index(ctx, x.Name)
			if err != nil {
				t.Fatal(err)
			}
			for shard := range index.NumShards {
				h, m := shardDocuments(t, r, index.Locator, shard)
				sum += h
				n += m
			}
		}
	}
	return sum, n
}

func shardDocuments(t *testing.T, r repo.Repository, loc snapshot.Locator, number int) (sum uint64, n int) {
	t.Helper()
	s, err := snapshot.OpenShard(t.Context(), r, loc, number)
	if err != nil {
		t.Fatal(err)
	}
	commit, err := lucene.Open(t.Context(), s.Directory(), lucene.Options{VerifyAll: true})
	if err != nil {
		t.Fatal(err)
	}
	reader := commit.Reader(lucene.ReadOptions{To: commit.MaxOrdinal})
	defer reader.Close()
	for {
		rec, err := reader.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return sum, n
		}
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New64a()
		fmt.Fprint(h, loc.IndexName, number, rec.Ordinal)
		h.Write(bytes.TrimSpace(rec.Source)) //nolint:errcheck // a hash takes everything
		sum += h.Sum64()
		n++
	}
}
