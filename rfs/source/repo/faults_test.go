package repo_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/signer"
)

// protocol is how a store of one kind states versions and errors.
type protocol struct {
	scheme  string
	options func(t *testing.T, endpoint string) repo.Options
	version string // header
	first   string // a version
	second  string // another
	// pinned reports whether a request is for the first version only.
	pinned func(req *http.Request) bool
	refuse func(w http.ResponseWriter, status int, code string)
	// codes of the store for conditions that all stores have.
	throttled, failed, missing, noBucket, changed, denied string
	permission                                            string // that an error for a denied read names
}

var protocols = []protocol{
	{
		scheme: "s3", version: "ETag", first: `"v1"`, second: `"v2"`,
		options: func(t *testing.T, endpoint string) repo.Options {
			signer.SetEnvironment(t, "", "k", "s")
			return repo.Options{S3: repo.S3Options{Region: "r", Endpoint: endpoint, PathStyle: true, Stall: time.Second}}
		},
		pinned:    func(req *http.Request) bool { return req.Header.Get("If-Match") == `"v1"` },
		refuse:    func(w http.ResponseWriter, status int, code string) { xmlError(w, status, code) },
		throttled: "SlowDown", failed: "InternalError", missing: "NoSuchKey", noBucket: "NoSuchBucket", changed: "PreconditionFailed", denied: "AccessDenied",
		permission: "s3:GetObject",
	},
	{
		scheme: "gs", version: "X-Goog-Generation", first: "1001", second: "1002",
		options: func(_ *testing.T, endpoint string) repo.Options {
			return repo.Options{GCS: repo.GCSOptions{Endpoint: endpoint, Stall: time.Second}}
		},
		pinned: func(req *http.Request) bool { return req.URL.Query().Get("ifGenerationMatch") == "1001" },
		refuse: func(w http.ResponseWriter, status int, code string) {
			message := map[string]string{"noBucket": "The specified bucket does not exist."}[code]
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"reason":%q}]}}`, status, message, code)
		},
		throttled: "rateLimitExceeded", failed: "backendError", missing: "notFound", noBucket: "noBucket", changed: "conditionNotMet", denied: "forbidden",
		permission: "storage.objects.get",
	},
	{
		scheme: "azblob", version: "ETag", first: `"0x1"`, second: `"0x2"`,
		options: func(t *testing.T, endpoint string) repo.Options {
			key := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString([]byte("key"))), 0o600); err != nil {
				t.Fatal(err)
			}
			return repo.Options{Azure: repo.AzureOptions{Account: "account", Endpoint: endpoint + "/account", KeyFile: key, Stall: time.Second}}
		},
		pinned: func(req *http.Request) bool { return req.Header.Get("If-Match") == `"0x1"` },
		refuse: func(w http.ResponseWriter, status int, code string) {
			w.Header().Set("X-Ms-Error-Code", code)
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>m</Message></Error>", code)
		},
		throttled: "ServerBusy", failed: "InternalError", missing: "BlobNotFound", noBucket: "ContainerNotFound", changed: "ConditionNotMet", denied: "AuthorizationPermissionMismatch",
		permission: "Storage Blob Data Reader",
	},
	{
		scheme: "http", version: "ETag", first: `"v1"`, second: `"v2"`,
		options: func(*testing.T, string) repo.Options { return repo.Options{} },
		pinned:  func(req *http.Request) bool { return req.Header.Get("If-Match") == `"v1"` },
		refuse:  func(w http.ResponseWriter, status int, _ string) { w.WriteHeader(status) },
		missing: "missing", changed: "changed", denied: "denied",
		permission: "to everyone",
	},
}

// serve answers requests for parts of one object, and misbehaves as it is told, request by request from 0. A behaviour that returns
// true has answered.
func (p protocol) serve(t *testing.T, tries int, content []byte, behave func(n int64, w http.ResponseWriter, req *http.Request) bool) (repo.Repository, *atomic.Int64) {
	t.Helper()
	requests := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n := requests.Add(1) - 1
		if given := req.Header.Get("X-Ms-Range"); given != "" {
			req.Header.Set("Range", given)
		}
		w.Header().Set(p.version, p.first)
		if behave != nil && behave(n, w, req) {
			return
		}
		req.Header.Del("If-Match")
		http.ServeContent(w, req, "object", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(server.Close)
	r, err := p.open(t, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	policy := quick()
	policy.Tries = tries
	return repo.NewReadAhead(repo.NewRetrying(r, policy), repo.ReadAheadOptions{Chunk: 8192}), requests
}

// open opens the bucket without retries.
func (p protocol) open(t *testing.T, endpoint string) (repo.Repository, error) {
	t.Helper()
	o := p.options(t, endpoint)
	switch uri := p.scheme + "://bucket/p"; p.scheme {
	case "http":
		return repo.NewWeb(endpoint+"/p", time.Second)
	case "gs":
		return repo.NewGCS(t.Context(), uri, o.GCS)
	case "azblob":
		return repo.NewAzure(t.Context(), uri, o.Azure)
	default:
		return repo.NewS3(t.Context(), uri, o.S3)
	}
}

// stall sends a part of the content, then nothing until the client gives up.
func stall(content []byte, w http.ResponseWriter, req *http.Request) bool {
	var from, to int
	if _, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
		to = len(content) - 1
	}
	w.Header().Set("Content-Length", strconv.Itoa(to-from+1))
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(content)))
	w.WriteHeader(http.StatusPartialContent)
	w.Write(content[from : from+100])
	w.(http.Flusher).Flush()
	select {
	case <-req.Context().Done():
	case <-time.After(10 * time.Second):
	}
	return true
}

// TestStores_FaultsThatPassAreRepeated: whatever a store does to some of the requests, the reader gets the bytes of the object.
func TestStores_FaultsThatPassAreRepeated(t *testing.T) {
	content := body()
	for _, p := range protocols {
		whole := func(w http.ResponseWriter, req *http.Request) bool { // 200 instead of 206
			req.Header.Del("Range")
			return false
		}
		var seen sync.Map // ranges that were asked for
		for name, behave := range map[string]func(n int64, w http.ResponseWriter, req *http.Request) bool{
			"none": nil,
			"throttled by 503": func(n int64, w http.ResponseWriter, _ *http.Request) bool {
				if n%2 == 0 {
					p.refuse(w, 503, p.throttled)
				}
				return n%2 == 0
			},
			"throttled by 429": func(n int64, w http.ResponseWriter, _ *http.Request) bool {
				if n%2 == 0 {
					p.refuse(w, 429, p.throttled)
				}
				return n%2 == 0
			},
			"failing": func(n int64, w http.ResponseWriter, _ *http.Request) bool {
				if n%3 != 0 {
					p.refuse(w, 500, p.failed)
				}
				return n%3 != 0
			},
			"dropping": func(n int64, _ http.ResponseWriter, _ *http.Request) bool {
				if n%2 == 0 {
					panic(http.ErrAbortHandler)
				}
				return false
			},
			"cutting":  func(n int64, w http.ResponseWriter, req *http.Request) bool { return n%3 != 2 && cut(content, w, req) },
			"stalling": func(n int64, w http.ResponseWriter, req *http.Request) bool { return n == 1 && stall(content, w, req) },
			"slow": func(n int64, w http.ResponseWriter, _ *http.Request) bool {
				time.Sleep(time.Duration(n%3) * 20 * time.Millisecond)
				return false
			},
			"without ranges": func(_ int64, w http.ResponseWriter, req *http.Request) bool { return whole(w, req) },
			"sometimes without ranges": func(n int64, w http.ResponseWriter, req *http.Request) bool {
				return n%2 == 0 && whole(w, req)
			},
			"short at first": func(_ int64, w http.ResponseWriter, req *http.Request) bool {
				if _, again := seen.LoadOrStore(req.Header.Get("Range"), true); again { // parts are asked for side by side
					return false
				}
				w.Header().Set("Content-Range", "bytes "+strings.TrimPrefix(req.Header.Get("Range"), "bytes=")+"/"+strconv.Itoa(len(content)))
				w.Header().Set("Content-Length", "10")
				w.WriteHeader(http.StatusPartialContent)
				w.Write(content[:10])
				return true
			},
		} {
			t.Run(p.scheme+" "+name, func(t *testing.T) {
				r, _ := p.serve(t, 20, content, behave)
				for _, c := range [][2]int64{{0, int64(len(content))}, {100, 30_000}, {5, 1000}, {0, 10}} {
					rc, err := r.Open(t.Context(), "b", c[0], c[1])
					if err != nil {
						t.Fatalf("%v: %v", c, err)
					}
					got, err := io.ReadAll(rc)
					if total, known := repo.Total(rc); err != nil || !bytes.Equal(got, content[c[0]:c[0]+c[1]]) || !known || total != int64(len(content)) {
						t.Errorf("%v: %d bytes of a blob of %d, %v", c, len(got), total, err)
					}
					rc.Close()
				}
			})
		}
	}
}

// TestStores_AnAnswerThatAlwaysBreaksOffIsNotTheEndOfTheObject: readers take an unexpected EOF for damage, which is never repeated.
func TestStores_AnAnswerThatAlwaysBreaksOffIsNotTheEndOfTheObject(t *testing.T) {
	const n = 1000
	for _, p := range protocols {
		t.Run(p.scheme, func(t *testing.T) {
			r, _ := p.serve(t, 4, body(), func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Length", strconv.Itoa(n))
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", n-1, len(body())))
				w.WriteHeader(http.StatusPartialContent)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			rc, err := r.Open(t.Context(), "b", 0, n)
			if err == nil {
				_, err = io.ReadAll(rc)
				rc.Close()
			}
			if !errors.Is(err, fault.ErrUnavailable) || errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "broke off") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestStores_AReplacedObjectIsDamage: no reader gets the bytes of two objects.
func TestStores_AReplacedObjectIsDamage(t *testing.T) {
	content := body()
	for _, p := range protocols {
		for name, change := range map[string]func(w http.ResponseWriter, req *http.Request) bool{
			"a store with conditions": func(w http.ResponseWriter, req *http.Request) bool {
				w.Header().Set(p.version, p.second)
				if p.pinned(req) {
					p.refuse(w, 412, p.changed)
				}
				return p.pinned(req)
			},
			"a store without conditions": func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set(p.version, p.second)
				return false
			},
		} {
			t.Run(p.scheme+" "+name, func(t *testing.T) {
				r, _ := p.serve(t, 4, content, func(_ int64, w http.ResponseWriter, req *http.Request) bool {
					return !strings.HasPrefix(req.Header.Get("Range"), "bytes=0-") && change(w, req)
				})
				rc, err := r.Open(t.Context(), "b", 0, int64(len(content)))
				if err != nil {
					t.Fatal(err)
				}
				defer rc.Close()
				if b, err := io.ReadAll(rc); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "changed") {
					t.Errorf("%d bytes, %v", len(b), err)
				}
			})
		}
	}
}

// TestStores_AnswersHaveTheirCategory: what has to be changed is an error at once and names what, what passes is repeated.
func TestStores_AnswersHaveTheirCategory(t *testing.T) {
	for _, p := range protocols {
		for _, c := range []struct {
			status int
			code   string
			want   error
			says   string
			tries  int64
		}{
			{404, p.missing, fs.ErrNotExist, "/p/b", 1},
			{404, p.noBucket, fault.ErrNoBucket, "the bucket does not exist", 1},
			{403, p.denied, fault.ErrConfig, p.permission, 1},
			{416, "InvalidRange", fault.ErrCorrupt, "ends before", 1},
			{412, p.changed, fault.ErrCorrupt, "changed", 1},
			{400, "Odd", fault.ErrConfig, "", 1},
			{503, p.throttled, fault.ErrUnavailable, p.throttled, 4},
			{500, p.failed, fault.ErrUnavailable, "500", 4},
			{429, p.throttled, fault.ErrUnavailable, "429", 4},
		} {
			if c.status == 404 && c.code == "" { // the kind has no buckets
				continue
			}
			t.Run(fmt.Sprint(p.scheme, " ", c.status, " ", c.code), func(t *testing.T) {
				r, requests := p.serve(t, 4, body(), func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
					p.refuse(w, c.status, c.code)
					return true
				})
				_, err := r.Open(t.Context(), "b", 0, 10)
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || requests.Load() != c.tries {
					t.Errorf("%v after %d requests, want %v", err, requests.Load(), c.want)
				}
			})
		}
	}
}

// TestStores_RedirectsAreNotFollowed: another host hears nothing.
func TestStores_RedirectsAreNotFollowed(t *testing.T) {
	for _, p := range protocols {
		for _, status := range []int{301, 302, 303, 307, 308} {
			t.Run(fmt.Sprint(p.scheme, " ", status), func(t *testing.T) {
				var heard atomic.Int64
				other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard.Add(1) }))
				t.Cleanup(other.Close)
				r, _ := p.serve(t, 4, body(), func(_ int64, w http.ResponseWriter, req *http.Request) bool {
					http.Redirect(w, req, other.URL+"/x", status)
					return true
				})
				_, err := r.Open(t.Context(), "b", 0, 10)
				_, serr := r.Stat(t.Context(), "b")
				for _, err := range []error{err, serr} {
					if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), strings.TrimPrefix(other.URL, "http://")) {
						t.Errorf("%v", err)
					}
				}
				if heard.Load() > 0 {
					t.Error("the other host heard a request")
				}
			})
		}
	}
}

// TestStores_ACancelledReaderIsNotTheStoresFault: the error is the caller's.
func TestStores_ACancelledReaderIsNotTheStoresFault(t *testing.T) {
	content := body()
	for _, p := range protocols {
		t.Run(p.scheme, func(t *testing.T) {
			started := make(chan struct{}, 10)
			r, _ := p.serve(t, 4, content, func(_ int64, w http.ResponseWriter, req *http.Request) bool {
				started <- struct{}{}
				return stall(content, w, req)
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rc, err := r.Open(ctx, "b", 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			defer rc.Close()
			<-started
			cancel()
			if _, err := io.ReadAll(rc); !errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrUnavailable) {
				t.Errorf("%v", err)
			}
		})
	}
}
