package repo_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/s3server"
)

func noPause(context.Context, time.Duration) error { return nil }

// TestObjectsArriveWholeAlthoughRequestsFail puts objects through a server that fails half of the requests.
func TestObjectsArriveWholeAlthoughRequestsFail(t *testing.T) {
	dir := t.TempDir()
	store(t, filepath.Join(dir, "bucket"), map[string][]byte{"other": []byte("x")})
	server, counts := s3server.Start(t, dir).Faulty(t, 50, "put")
	server.Setenv(t)
	b, err := repo.OpenBucket(t.Context(), "s3://bucket/failed/", s3Options(server), retry.Policy{Tries: 50, Sleep: noPause})
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("0123456789"), 20_000)
	for _, name := range []string{"a/1.ndjson", "a/2.ndjson", "a%2Fb é/1.ndjson", "a/1.ndjson"} {
		if err := b.Put(t.Context(), name, body); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "bucket", "failed", filepath.FromSlash(name))); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if counts().Sum() == 0 {
		t.Error("no request failed")
	}
	if b.URI() != "s3://bucket/failed" {
		t.Error(b.URI())
	}
	if err := b.Put(t.Context(), "../x", body); err == nil {
		t.Error("a name that leads out of the prefix was written")
	}
}

// TestWhatABucketRefusesForGoodIsConfiguration tells outage and refusal apart.
func TestWhatABucketRefusesForGoodIsConfiguration(t *testing.T) {
	dir := t.TempDir()
	store(t, filepath.Join(dir, "bucket"), map[string][]byte{"other": []byte("x")})
	server := s3server.Start(t, dir)
	server.Setenv(t)
	pauses := 0
	put := func(uri string, s s3server.Server) error {
		b, err := repo.OpenBucket(t.Context(), uri, s3Options(s), retry.Policy{Tries: 3, Sleep: func(context.Context, time.Duration) error { pauses++; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return b.Put(t.Context(), "a", []byte("b"))
	}
	if err := put("s3://none/x", server); !errors.Is(err, fault.ErrConfig) || pauses != 0 {
		t.Errorf("no such bucket, after %d pauses: %v", pauses, err)
	}
	always, _ := server.Faulty(t, 100, "always")
	if err := put("s3://bucket/x", always); !errors.Is(err, fault.ErrUnavailable) || pauses != 2 {
		t.Errorf("a server that always fails, after %d pauses: %v", pauses, err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	if err := put("s3://bucket/x", server); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("wrong key: %v", err)
	}
	if _, err := repo.OpenBucket(t.Context(), "s3://", s3Options(server), retry.Policy{}); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("no bucket named: %v", err)
	}
}
