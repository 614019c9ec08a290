package repo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/signer"
)

// fakeS3 answers ranges of one object and misbehaves as it is told, request by request
// (from 0). A behaviour that returns true has answered.
func fakeS3(t *testing.T, content []byte, behave func(n int64, w http.ResponseWriter, req *http.Request) bool) repo.Repository {
	t.Helper()
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n := count.Add(1) - 1
		w.Header().Set("ETag", `"v1"`)
		if behave != nil && behave(n, w, req) {
			return
		}
		http.ServeContent(w, req, "object", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(server.Close)
	signer.SetEnvironment(t, "", "k", "s")
	r, err := repo.NewS3(t.Context(), "s3://bucket/p", repo.S3Options{Region: "r", Endpoint: server.URL, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func quick() retry.Policy {
	return retry.Policy{Tries: 4, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

func xmlError(w http.ResponseWriter, status int, code string) bool {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>m</Message></Error>", code)
	return true
}

// cut sends half of the range that is asked for and breaks the connection.
func cut(content []byte, w http.ResponseWriter, req *http.Request) bool {
	var from, to int
	if _, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
		to = len(content) - 1
	}
	to = min(to, len(content)-1)
	w.Header().Set("Content-Length", strconv.Itoa(to-from+1))
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(content)))
	w.WriteHeader(http.StatusPartialContent)
	w.Write(content[from : from+(to-from+1)/2])
	w.(http.Flusher).Flush() // so that the client gets these bytes before the break
	panic(http.ErrAbortHandler)
}

func body() []byte { return bytes.Repeat([]byte("snapshot"), 5000) }

func TestAnswersOfAStoreHaveTheirCategory(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   error
		says   string
	}{
		{403, "SignatureDoesNotMatch", fault.ErrConfig, "check AWS_SECRET_ACCESS_KEY"}, {403, "InvalidAccessKeyId", fault.ErrConfig, "check AWS_ACCESS_KEY_ID"},
		{404, "InvalidAccessKeyId", fault.ErrConfig, "check AWS_ACCESS_KEY_ID"}, {400, "InvalidToken", fault.ErrConfig, "check AWS_SESSION_TOKEN"},
		{404, "XAdminUserNotFound", fault.ErrConfig, "check AWS_ACCESS_KEY_ID"}, {400, "InvalidBucketName", fault.ErrConfig, "b: the store answers 400 InvalidBucketName: m"},
		{404, "NoSuchKey", fs.ErrNotExist, ""}, {404, "NoSuchBucket", fault.ErrConfig, ""}, {403, "AccessDenied", fault.ErrConfig, ""}, {403, "RequestTimeTooSkewed", fault.ErrUnavailable, ""},
		{400, "ExpiredToken", fault.ErrConfig, ""}, {301, "PermanentRedirect", fault.ErrConfig, ""}, {403, "InvalidObjectState", fault.ErrConfig, ""},
		{500, "InternalError", fault.ErrUnavailable, ""}, {503, "SlowDown", fault.ErrUnavailable, ""}, {503, "", fault.ErrUnavailable, ""},
		{400, "RequestTimeout", fault.ErrUnavailable, ""}, {429, "TooManyRequests", fault.ErrUnavailable, ""},
		{412, "PreconditionFailed", fault.ErrCorrupt, ""}, {416, "InvalidRange", fault.ErrCorrupt, ""},
	} {
		r := fakeS3(t, body(), func(_ int64, w http.ResponseWriter, _ *http.Request) bool { return xmlError(w, c.status, c.code) })
		_, err := r.Open(t.Context(), "b", 0, 10)
		if !errors.Is(err, c.want) {
			t.Errorf("%d %s: %v, not %v", c.status, c.code, err, c.want)
		}
		if c.says != "" && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "may not do this")) {
			t.Errorf("%d %s: %v; want %q", c.status, c.code, err, c.says)
		}
	}
}

func TestBrokenBodiesAreGoneOnWithWhereTheyBroke(t *testing.T) {
	content := body()
	for _, n := range []int64{-1, int64(len(content))} {
		var served atomic.Int64
		r := fakeS3(t, content, func(i int64, w http.ResponseWriter, req *http.Request) bool {
			served.Store(i + 1)
			switch i {
			case 0:
				return xmlError(w, 503, "SlowDown")
			case 1, 2, 3, 5, 6:
				return cut(content, w, req)
			case 4:
				return xmlError(w, 500, "InternalError")
			}
			return false
		})
		rc, err := repo.NewRetrying(r, quick()).Open(t.Context(), "b", 0, n)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(rc)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d of %d bytes, %v", len(got), len(content), err)
		}
		if served.Load() != 8 {
			t.Errorf("%d requests", served.Load())
		}
		rc.Close()
	}
}

func TestAStoreThatStaysAwayIsUnavailableAfterAFewTries(t *testing.T) {
	var served atomic.Int64
	r := fakeS3(t, body(), func(i int64, w http.ResponseWriter, _ *http.Request) bool {
		served.Store(i + 1)
		return xmlError(w, 503, "SlowDown")
	})
	_, err := repo.NewRetrying(r, quick()).Open(t.Context(), "b", 0, 10)
	if !errors.Is(err, fault.ErrUnavailable) || served.Load() != 4 {
		t.Errorf("%d tries, %v", served.Load(), err)
	}
	served.Store(0)
	if _, err := repo.NewRetrying(r, quick()).Stat(t.Context(), "b"); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("stat: %v", err)
	}
}

func TestWithoutRetryABrokenBodyIsAnErrorNeverAnEnd(t *testing.T) {
	content := body()
	r := fakeS3(t, content, func(_ int64, w http.ResponseWriter, req *http.Request) bool { return cut(content, w, req) })
	rc, err := r.Open(t.Context(), "b", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if b, err := io.ReadAll(rc); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestAnObjectThatChangesUnderAReaderIsCorrupt(t *testing.T) {
	content := body()
	for name, change := range map[string]func(w http.ResponseWriter, req *http.Request) bool{
		"412": func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("ETag", `"v2"`)
			return req.Header.Get("If-Match") == `"v1"` && xmlError(w, 412, "PreconditionFailed")
		},
		"a store that ignores If-Match": func(w http.ResponseWriter, req *http.Request) bool {
			req.Header.Del("If-Match")
			w.Header().Set("ETag", `"v2"`)
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			behave := func(_ int64, w http.ResponseWriter, req *http.Request) bool {
				return !strings.HasPrefix(req.Header.Get("Range"), "bytes=0-") && change(w, req)
			}
			ahead := repo.NewReadAhead(repo.NewRetrying(fakeS3(t, content, behave), quick()), repo.ReadAheadOptions{Chunk: 8192})
			rc, err := ahead.Open(t.Context(), "b", 0, int64(len(content)))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(rc)
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "changed") {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			rc.Close()
		})
	}
}

// TestS3_WithoutRanges: a store that answers a range with the whole object is used, unless too much of it would have to be dropped.
func TestS3_WithoutRanges(t *testing.T) {
	content := bytes.Repeat([]byte("snapshot"), 17<<17)
	r := fakeS3(t, content, func(_ int64, _ http.ResponseWriter, req *http.Request) bool {
		req.Header.Del("Range")
		return false
	})
	for _, c := range [][2]int64{{0, 10}, {10, 10}, {10, -1}, {16 << 20, 100}} {
		rc, err := r.Open(t.Context(), "b", c[0], c[1])
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		want := content[c[0]:]
		if c[1] >= 0 {
			want = want[:c[1]]
		}
		got, err := io.ReadAll(rc)
		if total, known := repo.Total(rc); err != nil || !bytes.Equal(got, want) || !known || total != int64(len(content)) {
			t.Errorf("%v: %d bytes of %d, of a blob of %d, %v", c, len(got), len(want), total, err)
		}
		rc.Close()
	}
	if _, err := repo.NewRetrying(r, quick()).Open(t.Context(), "b", 16<<20+1, 10); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "whole object of 17825792 bytes") {
		t.Errorf("%v", err)
	}
}

// TestRetrying_AnswersThatAreNotWhatWasAskedFor: a complete answer with other bytes than those of the range is asked for again, a few
// times, before it is the blob that is damaged.
func TestRetrying_AnswersThatAreNotWhatWasAskedFor(t *testing.T) {
	content := body()
	ranged := func(from, to, status int) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", strconv.Itoa(to-from))
			if status == http.StatusPartialContent {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(content)))
			}
			w.WriteHeader(status)
			w.Write(content[from:to])
		}
	}
	for _, c := range []struct {
		name   string
		off, n int64
		odd    func(w http.ResponseWriter)
		want   error // when all answers are odd; nil: the answer itself
	}{
		{"a short 206", 100, 1000, ranged(100, 600, 206), fault.ErrCorrupt},
		{"a short 200", 100, 1000, ranged(0, 600, 200), fault.ErrCorrupt},
		{"an empty 200", 100, 1000, ranged(0, 0, 200), fault.ErrCorrupt},
		{"an empty 200 to a range from the beginning", 0, 1000, ranged(0, 0, 200), fault.ErrCorrupt},
		{"another range", 100, 1000, ranged(101, 1101, 206), fault.ErrCorrupt},
		{"more than the range", 100, 1000, ranged(100, 1101, 206), fault.ErrConfig},
		{"an empty 200 for a whole blob", 0, -1, ranged(0, 0, 200), nil},
	} {
		for _, odd := range []int64{1, 3, 100} {
			t.Run(fmt.Sprintf("%s, %d times", c.name, odd), func(t *testing.T) {
				var requests atomic.Int64
				r := repo.NewRetrying(fakeS3(t, content, func(n int64, w http.ResponseWriter, _ *http.Request) bool {
					requests.Store(n + 1)
					if n < odd {
						c.odd(w)
					}
					return n < odd
				}), quick())
				want := content[c.off:]
				if c.n >= 0 {
					want = want[:c.n]
				}
				rc, err := r.Open(t.Context(), "b", c.off, c.n)
				var got []byte
				if err == nil {
					got, err = io.ReadAll(rc)
					rc.Close()
				}
				switch {
				case odd < 100:
					if err != nil || !bytes.Equal(got, want) || requests.Load() != odd+1 {
						t.Errorf("%d bytes by %d requests, %v", len(got), requests.Load(), err)
					}
				case !errors.Is(err, c.want) || err == nil && len(got) > 0 || requests.Load() != 4:
					t.Errorf("%v after %d requests, want %v", err, requests.Load(), c.want)
				}
			})
		}
	}
}

func TestReadAheadKeepsToItsBudgetAndOrder(t *testing.T) {
	content := body()
	var open, most atomic.Int64
	release := make(chan struct{})
	r := fakeS3(t, content, func(_ int64, _ http.ResponseWriter, req *http.Request) bool {
		if strings.HasPrefix(req.Header.Get("Range"), "bytes=0-") {
			return false
		}
		if n := open.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-release
		open.Add(-1)
		return false
	})
	ahead := repo.NewReadAhead(r, repo.ReadAheadOptions{Chunk: 1000, Depth: 8, Budget: 3000})
	rc, err := ahead.Open(t.Context(), "b", 0, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	close(release)
	got, err := io.ReadAll(rc)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := rc.Close(); err != nil {
		t.Error(err)
	}
	if most.Load() > 4 { // three ahead and one that is needed now
		t.Errorf("%d requests immediately with memory for 3", most.Load())
	}
	// All memory came back: a second stream may again fetch ahead.
	rc, err = ahead.Open(t.Context(), "b", 0, 5000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(rc); err != nil || !bytes.Equal(got, content[:5000]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	rc.Close()
}

// only allows so many at once, of any number.
type only int

func (o only) Of(int) int { return int(o) }

func TestFewerRequestsRunAheadWhileTheStoreThrottles(t *testing.T) {
	content := body()
	var open, most atomic.Int64
	r := fakeS3(t, content, func(i int64, _ http.ResponseWriter, _ *http.Request) bool {
		n := open.Add(1)
		defer open.Add(-1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			continue
		}
		return false
	})
	ahead := repo.NewReadAhead(r, repo.ReadAheadOptions{Chunk: 500, Depth: 8, Pace: only(1)})
	rc, err := ahead.Open(t.Context(), "b", 0, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	got, err := io.ReadAll(rc)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if most.Load() > 2 { // one ahead and one that is needed now
		t.Errorf("%d requests immediately", most.Load())
	}
}

func TestCancellingEndsAStreamWithoutBlame(t *testing.T) {
	content := body()
	started := make(chan struct{})
	r := fakeS3(t, content, func(_ int64, w http.ResponseWriter, req *http.Request) bool {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		w.WriteHeader(http.StatusOK)
		w.Write(content[:10])
		w.(http.Flusher).Flush()
		close(started)
		<-req.Context().Done()
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	rc, err := repo.NewRetrying(r, quick()).Open(ctx, "b", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	<-started
	cancel()
	_, err = io.ReadAll(rc)
	if !errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	rc.Close()
}

func TestAStalledBodyIsBrokenOffAndGoneOnWith(t *testing.T) {
	content := body()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if requests.Add(1) > 1 {
			http.ServeContent(w, req, "object", time.Time{}, bytes.NewReader(content))
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		w.Write(content[:1000])
		w.(http.Flusher).Flush()
		<-req.Context().Done() // until the client gives up
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "k")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	r, err := repo.NewS3(t.Context(), "s3://bucket", repo.S3Options{Region: "r", Endpoint: server.URL, PathStyle: true, Stall: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	rc, err := repo.NewRetrying(r, quick()).Open(t.Context(), "b", 0, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	got, err := io.ReadAll(rc)
	if err != nil || !bytes.Equal(got, content) || requests.Load() != 2 {
		t.Errorf("%d bytes by %d requests, %v", len(got), requests.Load(), err)
	}
}

// Credentials that expire are asked for anew in the middle of a shard.
func TestExpiredCredentialsAreRenewed(t *testing.T) {
	content := body()
	var given atomic.Int64
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"AccessKeyId":"key-%d","SecretAccessKey":"s","Token":"t","Expiration":"2100-01-01T00:00:00Z"}`, given.Add(1))
	}))
	t.Cleanup(role.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.Header.Get("Authorization"), "key-1/") {
			xmlError(w, 400, "ExpiredToken")
			return
		}
		http.ServeContent(w, req, "object", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(server.Close)
	for _, k := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"} {
		t.Setenv(k, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL)
	r, err := repo.NewS3(t.Context(), "s3://bucket", repo.S3Options{Region: "r", Endpoint: server.URL, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := repo.ReadAll(t.Context(), repo.NewRetrying(r, quick()), "b", 1<<20)
	if err != nil || !bytes.Equal(got, content) || given.Load() != 2 {
		t.Errorf("%d bytes with credentials number %d, %v", len(got), given.Load(), err)
	}
}
