package config

import (
	"strings"

	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// StateBucket is a bucket that keeps the state of the work. How the snapshot's bucket is reached does not count for it.
type StateBucket struct {
	_         struct{} `group:"Coordination" section:"coordination"`
	URI       string   `flag:"coordinator-bucket" help:"s3://bucket/prefix that keeps the state of the work for any number of processes, without a cluster; the store must have conditional writes (If-None-Match, If-Match), as AWS S3 has. Processes read its clock to the second: what depends on the end of a lease waits 2 s longer"`
	Region    string   `flag:"coordinator-s3-region" help:"region of that bucket (default: the environment's)"`
	Endpoint  string   `flag:"coordinator-s3-endpoint" check:"url" help:"endpoint of the S3-compatible store that has that bucket"`
	PathStyle bool     `flag:"coordinator-s3-path-style" help:"address that bucket by path instead of by host name"`
	RoleARN   string   `flag:"coordinator-s3-role-arn" help:"role to assume for that bucket"`
}

// Check rejects an invalid bucket, and credentials in addresses.
func (b *StateBucket) Check() error {
	switch {
	case secret.In("coordinator-bucket", b.URI) || secret.In("coordinator-s3-endpoint", b.Endpoint):
		return Usage("%s: no user, password or key belongs in the address of a bucket or endpoint: use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role", secret.Text(b.URI+" "+b.Endpoint))
	case b.URI != "" && !strings.HasPrefix(b.URI, "s3://"):
		return Usage("invalid --coordinator-bucket %q: want s3://bucket/prefix", b.URI)
	case b.URI == "" && b.Region+b.Endpoint+b.RoleARN != "", b.URI == "" && b.PathStyle:
		return Usage("--coordinator-s3-region and the like are about a bucket: give --coordinator-bucket, too")
	}
	return nil
}

// Options returns them as the client takes them.
func (b StateBucket) Options() repo.S3Options {
	return repo.S3Options{Region: b.Region, Endpoint: b.Endpoint, PathStyle: b.PathStyle, RoleARN: b.RoleARN, Flags: "coordinator-"}
}
