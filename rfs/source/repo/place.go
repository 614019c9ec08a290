package repo

import (
	"path"
	"strings"
)

// place is a prefix in a bucket or container.
type place struct {
	scheme, bucket string
	prefix         string // "" or ending in "/"
}

// placeOf parses SCHEME://bucket/prefix. It returns false without a bucket, and for an address with a user, password or port.
func placeOf(uri string) (place, bool) {
	scheme, rest, _ := strings.Cut(uri, "://")
	bucket, prefix, _ := strings.Cut(rest, "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return place{scheme, bucket, prefix}, bucket != "" && !strings.ContainsAny(bucket, "@:?#")
}

// URI returns the URI of bucket and prefix.
func (p place) URI() string {
	return p.scheme + "://" + p.bucket + "/" + strings.TrimSuffix(p.prefix, "/")
}

// what describes a request for an error.
func (p place) what(verb, name string) string {
	return verb + " " + p.scheme + "://" + p.bucket + "/" + p.prefix + name
}

// whole returns the bucket without the prefix; false if p has none.
func (p place) whole() (place, bool) {
	return place{p.scheme, p.bucket, ""}, p.prefix != ""
}

// above returns the place one level above the prefix; false without a prefix.
func (p place) above() (place, bool) {
	prefix, _ := path.Split(strings.TrimSuffix(p.prefix, "/"))
	return place{p.scheme, p.bucket, prefix}, p.prefix != ""
}
