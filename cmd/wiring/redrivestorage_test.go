package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/resend"
	"github.com/rfsd/rfsd/testing/s3server"
)

// refusing is a target that refuses the first n documents.
type refusing struct{ n int }

func (r *refusing) Send(_ context.Context, _ []byte, n int) (bulk.Result, error) {
	var res bulk.Result
	for i := range n {
		if r.n > 0 {
			r.n--
			res.Refused = append(res.Refused, bulk.Refusal{Pos: i, Status: 400, Type: "mapper_parsing_exception", Reason: "again"})
		}
	}
	return res, nil
}

// TestRedriveOfABucket replaces objects of an S3 server whose requests fail now and then.
func TestRedriveOfABucket(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	server, faults := s3server.Start(t, root).Faulty(t, 30, "redrive")
	server.Setenv(t)
	o := Options{FailedDir: "s3://bucket/failed", stores: repo.Options{S3: repo.S3Options{Endpoint: server.Endpoint, Region: server.Region, PathStyle: true}}}
	const documents = 9
	for _, o.Session = range []string{"move", "other"} {
		r, done, err := openSink(t.Context(), o, nil, "w")
		for i := 0; err == nil && i < documents; i += 3 {
			err = errors.Join(r.Record(t.Context(), refusals(documents)[i:i+3]), r.Sync(t.Context()))
		}
		if err == nil {
			err = done()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	size := func(session string) (n int64) {
		err := filepath.Walk(filepath.Join(root, "bucket", "failed", session), func(_ string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				n += info.Size()
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	o.Session = "move"
	other := size("other")
	for turn, c := range []struct {
		refuses int
		want    string
		err     error
	}{
		{2, "9 documents, 7 indexed, 2 failed in 3 files", nil},
		{0, "2 documents, 2 indexed, 0 failed in 1 files", nil},
		{0, "0 documents, 0 indexed, 0 failed in 0 files", nil},
	} {
		storage, err := failedStorage(t.Context(), o, &resend.State{})
		if err != nil {
			t.Fatal(err)
		}
		r := &redrive.Redrive{
			Storage: storage, Bulk: bulk.Options{Sender: &refusing{c.refuses}, MaxInFlight: 1}, MaxDocument: 1 << 20, Log: slog.New(slog.DiscardHandler),
			Existing: func(context.Context, string) (bulk.Existing, error) { return bulk.Overwrite, nil },
		}
		report, err := r.Run(t.Context())
		if got := fmt.Sprintf("%d documents, %d indexed, %d failed in %d files", report.Documents, report.Indexed, report.Failed, report.Files); err != nil || got != c.want || !report.Complete {
			t.Errorf("turn %d: %s, %v, want %s", turn, got, err, c.want)
		}
	}
	if n := size("move"); n != 0 || size("other") != other {
		t.Errorf("%d bytes are left, another session's %d are %d", n, other, size("other"))
	}
	if faults().Sum() == 0 {
		t.Error("no request failed")
	}
}
