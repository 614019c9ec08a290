package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestASinkInTheDataDirectoryIsRefused(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for sink, refused := range map[string]bool{
		data: true, filepath.Join(data, "x", "y"): true, filepath.Join(link, "failed"): true, data + "/../data/failed": true,
		data + "-failed": false, filepath.Dir(data): false, filepath.Join(data, "..", "..failed"): false, "s3://bucket" + data: false, "rfsd-failed/x": false,
	} {
		err := config.OutsideData(sink, data)
		if refused != errors.Is(err, fault.ErrConfig) || refused != (err != nil && strings.Contains(err.Error(), sink)) {
			t.Errorf("%s: %v", sink, err)
		}
		if err := config.OutsideData(sink, ""); err != nil {
			t.Errorf("%s without a data directory: %v", sink, err)
		}
	}
}

func TestExport_PlaceIsChecked(t *testing.T) {
	for _, c := range []struct{ to, repository, dir, says string }{
		{"out", "/snapshots", "out", ""},
		{"file:///out", "/snapshots", "/out", ""},
		{"s3://bucket/exports", "s3://bucket/snapshots", "s3://bucket/exports", ""},
		{"gs://bucket/snapshots-1", "gs://bucket/snapshots", "gs://bucket/snapshots-1", ""},
		{"azblob://bucket/snapshots/out", "azblob://bucket/snapshots/", "", "nothing is ever written"},
		{"s3://bucket/snapshots", "s3://bucket", "", "nothing is ever written"},
		{"s3://key:secret@bucket/out", "/snapshots", "", "no user, password or key"},
		{"ftp://host/out", "/snapshots", "", `invalid --export-dir "ftp://host/out"`},
	} {
		t.Run(c.to, func(t *testing.T) {
			var m config.Migrate
			err := config.Decode(config.Values{"repo-uri": {c.repository}, "snapshot-name": {"s"}, "export-dir": {c.to}}, &m)
			if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says)) || err == nil && m.Export.Dir != c.dir {
				t.Errorf("%q, %v", m.Export.Dir, err)
			}
			if err != nil && strings.Contains(err.Error(), "secret@") {
				t.Errorf("the secret is in the message: %v", err)
			}
		})
	}
}

func TestASinkInABucketIsChecked(t *testing.T) {
	for _, c := range []struct {
		sink, repository string
		shared           bool
		says             string
	}{
		{"s3://bucket/failed", "s3://bucket/snapshots", false, ""},
		{"s3://bucket/snapshots-failed", "s3://bucket/snapshots/", false, ""},
		{"s3://bucket/snapshots/failed", "s3://bucket/snapshots", false, "nothing is ever written"},
		{"s3://bucket/snapshots/", "s3://bucket/snapshots", false, "nothing is ever written"},
		{"s3://bucket", "/snapshots", true, "always shared"},
		{"s3:///failed", "/snapshots", false, `invalid --failed-documents "s3:///failed"`},
		{"failed", "/snapshots", true, ""},
	} {
		values := config.Values{"repo-uri": {c.repository}, "snapshot-name": {"s"}, "discard": {"true"}, "failed-documents": {c.sink}, "failed-documents-shared": {strconv.FormatBool(c.shared)}}
		err := config.Decode(values, &config.Migrate{})
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s beside %s: %v", c.sink, c.repository, err)
		}
	}
}
