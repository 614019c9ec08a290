package config

import (
	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// StateBucket is a bucket that keeps the state of the work. How the snapshot's bucket is reached does not count for it.
type StateBucket struct {
	_         struct{} `group:"Coordination" section:"coordination"`
	URI       string   `flag:"coordinator-bucket" help:"keep the state of the work in s3://bucket/prefix, gs://bucket/prefix or azblob://container/prefix, for any number of processes, without a cluster; the store must have conditional writes"`
	Region    string   `flag:"coordinator-s3-region" help:"region of that bucket (default: the environment's)"`
	Endpoint  string   `flag:"coordinator-s3-endpoint" check:"url" help:"endpoint of the S3-compatible store that has that bucket"`
	PathStyle bool     `flag:"coordinator-s3-path-style" help:"address that bucket by path instead of by host name"`
	RoleARN   string   `flag:"coordinator-s3-role-arn" help:"role to assume for that bucket"`
	GCS       GCS      `prefix:"coordinator-"`
	Azure     Azure    `prefix:"coordinator-"`
}

// Check rejects an invalid bucket, and credentials in addresses.
func (b *StateBucket) Check() error {
	for _, address := range []string{b.URI, b.Endpoint, b.GCS.Endpoint, b.Azure.Endpoint} {
		if secret.In("coordinator-bucket", address) {
			return Usage("%s: no user, password or key belongs in the address of a bucket or endpoint: use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, --coordinator-gcs-key-file, --coordinator-azure-key-file, or a role", secret.Text(address))
		}
	}
	switch {
	case b.URI != "" && !repo.IsBucket(b.URI):
		return Usage("invalid --coordinator-bucket %q: want s3://bucket/prefix, gs://bucket/prefix or azblob://container/prefix", b.URI)
	case b.URI == "" && (b.Region+b.Endpoint+b.RoleARN != "" || b.PathStyle || b.GCS != GCS{} || b.Azure != Azure{}):
		return Usage("--coordinator-s3-region and the like are about a bucket: give --coordinator-bucket, too")
	}
	return nil
}

// Options returns them as the client takes them.
func (b StateBucket) Options() repo.Options {
	const flags = "coordinator-"
	return repo.Options{
		S3:  repo.S3Options{Region: b.Region, Endpoint: b.Endpoint, PathStyle: b.PathStyle, RoleARN: b.RoleARN, Flags: flags},
		GCS: b.GCS.options(flags), Azure: b.Azure.options(flags),
	}
}
