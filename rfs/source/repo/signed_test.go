package repo_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/signer"
)

const (
	keyID  = "AKIDCANARY"
	secret = "canary-of-the-secret"
	role   = "arn:aws:iam::123456789012:role/reader"
	region = "eu-central-1"
)

// bucket is an object store of one folder that lets in only what is signed rightly, and the
// token service that gives a role its keys.
type bucket struct {
	endpoint string
	store    *signer.Verifier
	roles    *signer.Roles

	mu    sync.Mutex
	kinds []string // of the requests that were let in
}

func newBucket(t *testing.T, objects map[string]string) *bucket {
	t.Helper()
	signer.SetEnvironment(t, "", keyID, secret)
	b := &bucket{store: &signer.Verifier{Region: region, Service: "s3"}}
	s := httptest.NewServer(b.store.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := strings.CutPrefix(r.URL.Path, "/bucket/")
		kind := r.Method
		if r.URL.Query().Get("list-type") != "" {
			kind = "LIST"
		} else if r.Header.Get("Range") != "" {
			kind += " range"
		}
		b.mu.Lock()
		b.kinds = append(b.kinds, kind)
		b.mu.Unlock()
		if kind == "LIST" {
			list(w, objects, r.URL.Query().Get("prefix"))
			return
		}
		content, ok := objects[key]
		if !ok {
			xmlError(w, 404, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "object", time.Time{}, strings.NewReader(content))
	})))
	t.Cleanup(s.Close)
	b.endpoint = s.URL
	b.roles = &signer.Roles{Verifier: &signer.Verifier{Region: region, Service: "sts"}, ARNs: []string{role}, Grant: []*signer.Verifier{b.store}}
	b.roles.Verifier.Add(keyID, signer.Key{Secret: secret})
	sts := httptest.NewServer(b.roles.Handler())
	t.Cleanup(sts.Close)
	t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
	return b
}

func list(w http.ResponseWriter, objects map[string]string, prefix string) {
	type content struct {
		Key  string
		Size int
	}
	answer := struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []content
	}{}
	for k, v := range objects {
		if strings.HasPrefix(k, prefix) {
			answer.Contents = append(answer.Contents, content{k, len(v)})
		}
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(answer)
}

func (b *bucket) options() repo.S3Options {
	return repo.S3Options{Region: region, Endpoint: b.endpoint, PathStyle: true}
}

// everyKind makes each kind of request that a repository makes.
func everyKind(t *testing.T, r repo.Repository) error {
	t.Helper()
	for _, n := range []int64{-1, 4} {
		rc, err := r.Open(t.Context(), "a b+ü.dat", 0, n)
		if err != nil {
			return err
		}
		if _, err := io.ReadAll(rc); err != nil {
			return err
		}
		rc.Close()
	}
	if _, err := r.Stat(t.Context(), "a b+ü.dat"); err != nil {
		return err
	}
	for blob, err := range r.List(t.Context(), "a b") {
		if err != nil {
			return err
		}
		if blob.Name != "a b+ü.dat" {
			t.Errorf("listed %q", blob.Name)
		}
	}
	return nil
}

func objects() map[string]string { return map[string]string{"p/a b+ü.dat": "snapshot"} }

func (b *bucket) sawEveryKind(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range []string{"GET", "GET range", "HEAD", "LIST"} {
		if !slices.Contains(b.kinds, k) {
			t.Errorf("no %s among %v", k, b.kinds)
		}
	}
}

func TestARoleIsAssumedAndEveryRequestSignedWithItsKeys(t *testing.T) {
	b := newBucket(t, objects()) // the keys of the process are not let in, only those of the role
	o := b.options()
	plain, err := repo.NewS3(t.Context(), "s3://bucket/p", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := everyKind(t, plain); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("without the role: %v", err)
	}
	o.RoleARN = role
	r, err := repo.NewS3(t.Context(), "s3://bucket/p", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := everyKind(t, r); err != nil {
		t.Fatal(err)
	}
	b.sawEveryKind(t)
	if b.roles.Given() != 1 {
		t.Errorf("%d credentials were asked for", b.roles.Given())
	}
	// When the keys of the role are over, new ones are asked for, and the request is made again.
	b.store.Expire()
	if err := everyKind(t, repo.NewRetrying(r, quick())); err != nil || b.roles.Given() != 2 {
		t.Errorf("after they expired: %v, %d credentials", err, b.roles.Given())
	}
}

func TestARoleThatMayNotBeAssumedIsRefusedAtOnceWithoutSecrets(t *testing.T) {
	b := newBucket(t, objects())
	o := b.options()
	o.RoleARN = role + "-other"
	_, err := repo.NewS3(t.Context(), "s3://bucket/p", o)
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "sts:AssumeRole") || strings.Contains(err.Error(), "canary") {
		t.Errorf("another role: %v", err)
	}
	b.roles.Verifier.Add(keyID, signer.Key{Secret: "another"})
	o.RoleARN = role
	_, err = repo.NewS3(t.Context(), "s3://bucket/p", o)
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "SignatureDoesNotMatch") || strings.Contains(err.Error(), "canary") {
		t.Errorf("wrong secret: %v", err)
	}
}

func TestEveryRequestToARequesterPaysBucketSaysSoAndSignsIt(t *testing.T) {
	b := newBucket(t, objects())
	b.store.Add(keyID, signer.Key{Secret: secret})
	b.store.Require = []string{"x-amz-request-payer"}
	o := b.options()
	r, err := repo.NewS3(t.Context(), "s3://bucket/p", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := everyKind(t, r); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("no payer: %v", err)
	}
	o.RequesterPays = true
	if r, err = repo.NewS3(t.Context(), "s3://bucket/p", o); err != nil {
		t.Fatal(err)
	}
	if err := everyKind(t, r); err != nil {
		t.Fatal(err)
	}
	b.sawEveryKind(t)
}

func TestRequestsThatAreSignedWronglyAreRefusedWithoutSecrets(t *testing.T) {
	for name, spoil := range map[string]func(b *bucket, o *repo.S3Options){
		"secret": func(b *bucket, _ *repo.S3Options) { b.store.Add(keyID, signer.Key{Secret: "another"}) },
		"key":    func(b *bucket, _ *repo.S3Options) { b.store.Remove(keyID) },
		"token":  func(b *bucket, _ *repo.S3Options) { b.store.Add(keyID, signer.Key{Secret: secret, Token: "t"}) },
		"region": func(_ *bucket, o *repo.S3Options) { o.Region = "us-east-1" },
	} {
		b := newBucket(t, objects())
		b.store.Add(keyID, signer.Key{Secret: secret})
		o := b.options()
		spoil(b, &o)
		r, err := repo.NewS3(t.Context(), "s3://bucket/p", o)
		if err != nil {
			t.Fatal(err)
		}
		if err := everyKind(t, r); !errors.Is(err, fault.ErrConfig) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
