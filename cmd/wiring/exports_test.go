package wiring

import (
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// TestForMigration_ExportsKeepTheirStateWithThem unless another place is named.
func TestForMigration_ExportsKeepTheirStateWithThem(t *testing.T) {
	for _, c := range []struct {
		name         string
		values       config.Values
		file, bucket string // of the state
		endpoint     string
	}{
		{"a directory", config.Values{"export-dir": {"out"}}, filepath.Join("out", ".rfsd", "coordinator.db"), "", ""},
		{"a directory that is shared", config.Values{"export-dir": {"out"}, "coordinator-bucket": {"s3://state/x"}}, "", "s3://state/x", ""},
		{"a bucket", config.Values{"export-dir": {"s3://exports/nightly/"}, "s3-endpoint": {"http://store:9000"}}, "", "s3://exports/nightly/.rfsd/state", "http://store:9000"},
		{"a bucket, and another for the state", config.Values{"export-dir": {"s3://exports/nightly"}, "s3-endpoint": {"http://store:9000"}, "coordinator-bucket": {"gs://state/x"}}, "", "gs://state/x", ""},
		{"a bucket, and a file for the state", config.Values{"export-dir": {"gs://exports/nightly"}, "coordinator-file": {"x.db"}}, "x.db", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			var m config.Migrate
			if err := config.Decode(c.values.Over(config.Values{"repo-uri": {"/snapshots"}, "snapshot-name": {"s"}}), &m); err != nil {
				t.Fatal(err)
			}
			o, err := ForMigration("test", m)
			if err != nil || o.coordinatorFile != c.file || o.bucket.URI != c.bucket || o.bucket.Endpoint != c.endpoint || o.Shares() == (c.file != "") {
				t.Errorf("%q, %+v, %v", o.coordinatorFile, o.bucket, err)
			}
			if inBucket := repo.IsBucket(m.Export.Dir); (o.Memory().Output > 0) != inBucket || inBucket && o.Memory().Budget(false) <= (Options{Slots: o.Slots, connections: o.connections, bulkBytes: o.bulkBytes}).Memory().Budget(false) {
				t.Errorf("memory %+v", o.Memory())
			}
		})
	}
}
