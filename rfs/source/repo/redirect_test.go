package repo_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/signer"
)

// TestAStoreThatRedirectsGetsNothingSentElsewhere: whatever the answer and the request, the other host hears nothing, and the
// error names it.
func TestAStoreThatRedirectsGetsNothingSentElsewhere(t *testing.T) {
	signer.SetEnvironment(t, "", keyID, secret)
	t.Setenv("AWS_SESSION_TOKEN", "token")
	requests := map[string]func(r *repo.S3) error{
		"get": func(r *repo.S3) error {
			in, err := r.Open(t.Context(), "index-0", 0, -1)
			if err != nil {
				return err
			}
			_, err = io.ReadAll(in)
			return errors.Join(err, in.Close())
		},
		"head": func(r *repo.S3) error { _, err := r.Stat(t.Context(), "index-0"); return err },
		"list": func(r *repo.S3) error {
			for _, err := range r.List(t.Context(), "") {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for verb, ask := range requests {
			t.Run(fmt.Sprintf("%d to a %s", status, verb), func(t *testing.T) {
				var mu sync.Mutex
				var heard []string
				other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					heard = append(heard, fmt.Sprintf("%s %s %v", r.Method, r.URL, r.Header))
				}))
				defer other.Close()
				host := strings.TrimPrefix(other.URL, "http://")
				store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Location", other.URL+r.URL.String())
					w.Header().Set("X-Amz-Bucket-Region", "us-gov-west-1")
					w.WriteHeader(status)
					if r.Method != http.MethodHead {
						_, _ = io.WriteString(w, "<Error><Code>PermanentRedirect</Code><Endpoint>"+host+"</Endpoint><Bucket>bucket</Bucket></Error>")
					}
				}))
				defer store.Close()
				r, err := repo.NewS3(t.Context(), "s3://bucket/x", repo.S3Options{Region: region, Endpoint: store.URL, PathStyle: true})
				if err != nil {
					t.Fatal(err)
				}
				err = ask(r)
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), host) {
					t.Errorf("the error does not name where it leads: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				if len(heard) > 0 {
					t.Errorf("the other host heard %q", heard)
				}
			})
		}
	}
}

// TestTheAuthorityOfARoleThatRedirectsGetsNothingSentElsewhere: the credentials with which a role is assumed stay, too.
func TestTheAuthorityOfARoleThatRedirectsGetsNothingSentElsewhere(t *testing.T) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var asked, elsewhere, stored atomic.Int64
			count := func(n *atomic.Int64, then http.HandlerFunc) string {
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					n.Add(1)
					then(w, r)
				}))
				t.Cleanup(s.Close)
				return s.URL
			}
			other := count(&elsewhere, func(http.ResponseWriter, *http.Request) {})
			authority := count(&asked, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", other+r.URL.String())
				w.WriteHeader(status)
			})
			store := count(&stored, func(http.ResponseWriter, *http.Request) {})
			signer.SetEnvironment(t, "", keyID, secret)
			t.Setenv("AWS_SESSION_TOKEN", "token")
			t.Setenv("AWS_ENDPOINT_URL_STS", authority)
			r, err := repo.NewS3(t.Context(), "s3://bucket/x", repo.S3Options{Region: region, Endpoint: store, PathStyle: true, RoleARN: "arn:aws:iam::123456789012:role/reader"})
			if err == nil {
				_, err = r.Stat(t.Context(), "index-0")
			}
			if err == nil {
				t.Error("it reads without the role")
			}
			if asked.Load() == 0 || elsewhere.Load() > 0 || stored.Load() > 0 {
				t.Errorf("asked %d times; %d requests elsewhere, %d to the store without the role: %v", asked.Load(), elsewhere.Load(), stored.Load(), err)
			}
		})
	}
}
