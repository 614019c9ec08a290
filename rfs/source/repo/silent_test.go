package repo_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/signer"
)

// TestAStoreThatCannotBeReachedIsNamed: the operator reads which endpoint, why, and which option to check, soon and once.
func TestAStoreThatCannotBeReachedIsNamed(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "k")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nothing := closed.Addr().String()
	closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	encrypted := httptest.NewUnstartedServer(http.NotFoundHandler())
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that the client ends
	encrypted.StartTLS()
	defer encrypted.Close()
	for _, c := range []struct {
		name     string
		endpoint string
		tries    int // 0: as many as the resolver's answer allows
		words    []string
	}{
		{"nothing listens", "http://" + nothing, 3, []string{"the endpoint http://" + nothing + " does not answer: ", "connection refused", "check --s3-endpoint"}},
		{"the name is unknown", "http://s3.invalid:9000", 0, []string{"the endpoint http://s3.invalid:9000 does not answer", "--s3-path-style"}},
		{"https to http", strings.Replace(plain.URL, "http:", "https:", 1), 10, []string{"no TLS there", "http:// in --s3-endpoint"}},
		{"an unknown authority", encrypted.URL, 10, []string{"unknown authority", "AWS_CA_BUNDLE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := repo.NewS3(t.Context(), "s3://bucket/p", repo.S3Options{Region: "eu-west-1", Endpoint: c.endpoint, PathStyle: c.endpoint != "http://s3.invalid:9000"})
			if err != nil {
				t.Fatal(err)
			}
			pauses := 0
			r := repo.NewRetrying(s, retry.Policy{Sleep: func(context.Context, time.Duration) error { pauses++; return nil }})
			_, err = r.Stat(t.Context(), "index.latest")
			if !errors.Is(err, fault.ErrUnavailable) || c.tries > 0 && pauses != c.tries-1 {
				t.Errorf("%d pauses, %v", pauses, err)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in %v", w, err)
				}
			}
			for _, w := range []string{"operation error", "RequestID", "exceeded maximum", "https response error"} {
				if strings.Contains(err.Error(), w) {
					t.Errorf("words of the SDK in %v", err)
				}
			}
		})
	}
}

// TestAStoreThatWasThereIsWaitedFor: the short wait is for addresses that never answered.
func TestAStoreThatWasThereIsWaitedFor(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "k")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	server := httptest.NewServer(http.NotFoundHandler())
	s, err := repo.NewS3(t.Context(), "s3://bucket", repo.S3Options{Region: "eu-west-1", Endpoint: server.URL, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	pauses := 0
	r := repo.NewRetrying(s, retry.Policy{Sleep: func(context.Context, time.Duration) error { pauses++; return nil }})
	if _, err := r.Stat(t.Context(), "x"); errors.Is(err, fault.ErrUnavailable) || err == nil {
		t.Fatal(err)
	}
	server.Close()
	if _, err := r.Stat(t.Context(), "x"); !errors.Is(err, fault.ErrUnavailable) || pauses != 9 {
		t.Errorf("%d pauses, %v", pauses, err)
	}
}

func TestMissingCredentialsAndRegionStateWhatToSet(t *testing.T) {
	signer.SetEnvironment(t, "", "", "")
	_, err := repo.NewS3(t.Context(), "s3://bucket/p", repo.S3Options{Region: "eu-west-1"})
	if !errors.Is(err, fault.ErrConfig) || !strings.HasPrefix(err.Error(), "s3://bucket/p: no AWS credentials, set AWS_ACCESS_KEY_ID") {
		t.Errorf("%v", err)
	}
	_, err = repo.NewS3(t.Context(), "s3://bucket/p", repo.S3Options{})
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "give --s3-region or set AWS_REGION") {
		t.Errorf("%v", err)
	}
}
