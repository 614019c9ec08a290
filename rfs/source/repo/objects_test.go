package repo_test

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/s3server"
)

// TestAnswersToConditionalWritesHaveTheirCategory: a condition that did not hold changed nothing; of anything else that passes
// the outcome is unknown; the rest has to be changed by the user.
func TestAnswersToConditionalWritesHaveTheirCategory(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   error
		says   string
	}{
		{412, "PreconditionFailed", fs.ErrExist, ""},
		{409, "ConditionalRequestConflict", fault.ErrUnavailable, "another write"},
		{404, "NoSuchKey", fs.ErrExist, ""},
		{409, "OperationAborted", fault.ErrUnavailable, "OperationAborted"},
		{503, "SlowDown", fault.ErrUnavailable, "SlowDown"},
		{500, "InternalError", fault.ErrUnavailable, "500"},
		{429, "TooManyRequests", fault.ErrUnavailable, "429"},
		{403, "AccessDenied", fault.ErrConfig, "s3:PutObject"},
		{403, "RequestTimeTooSkewed", fault.ErrUnavailable, "the clock of this machine"},
		{404, "NoSuchBucket", fault.ErrConfig, "the bucket does not exist"},
		{501, "NotImplemented", fault.ErrConfig, "no conditional writes"},
	} {
		o := fakeObjects(t, func(w http.ResponseWriter, _ *http.Request) { xmlError(w, c.status, c.code) })
		for _, version := range []string{"", `"v1"`} {
			_, err := o.Put(t.Context(), "o", []byte("x"), version)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d %s: %v, want %v", c.status, c.code, err, c.want)
			}
		}
	}
}

// TestObjectsOfAStrangeServerAreRefused: answers without what the protocol relies on.
func TestObjectsOfAStrangeServerAreRefused(t *testing.T) {
	o := fakeObjects(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		if strings.Contains(r.URL.RawQuery, "list-type") {
			w.Write([]byte(`<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>`)) //nolint:errcheck // a test
		}
	})
	if _, _, err := o.Get(t.Context(), "o"); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "ETag") {
		t.Errorf("get without an ETag: %v", err)
	}
	if _, err := o.Put(t.Context(), "o", nil, ""); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("put without an ETag: %v", err)
	}
	if _, err := o.Date(t.Context(), "o"); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "Date") {
		t.Errorf("no Date: %v", err)
	}
	if _, _, _, err := o.List(t.Context(), "o", ""); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("empty pages without end: %v", err)
	}
	for _, name := range []string{"../o", "/o", "a//b", ""} {
		if _, _, err := o.Get(t.Context(), name); err == nil {
			t.Errorf("name %q is taken", name)
		}
	}
}

// TestObjects_UpTo: an object that is longer than allowed is refused.
func TestObjects_UpTo(t *testing.T) {
	for _, c := range []struct {
		name     string
		size     int
		up       int64 // 0: the default
		accepted bool
	}{
		{"the default", 32 << 20, 0, true},
		{"beyond the default", 32<<20 + 1, 0, false},
		{"more is allowed", 40 << 20, 40 << 20, true},
		{"beyond more", 40<<20 + 1, 40 << 20, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := make([]byte, c.size)
			o := fakeObjects(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("ETag", `"v"`)
				w.Write(body) //nolint:errcheck // a test
			})
			if c.up > 0 {
				o = o.UpTo(c.up)
			}
			got, _, err := o.Get(t.Context(), "o")
			if c.accepted && (err != nil || len(got) != c.size) || !c.accepted && !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

func fakeObjects(t *testing.T, answer http.HandlerFunc) *repo.Objects {
	t.Helper()
	server := s3server.Fake(t, answer)
	server.Setenv(t)
	return openObjects(t, server)
}

func openObjects(t *testing.T, server s3server.Server) *repo.Objects {
	t.Helper()
	o, err := repo.OpenObjects(t.Context(), "s3://bucket/p", s3Options(server))
	if err != nil {
		t.Fatal(err)
	}
	return o
}
