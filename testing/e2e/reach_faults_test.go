package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/truth"
)

// storeKind is a kind of repository behind a network.
type storeKind struct {
	name string
	in   func(t *testing.T, repo string) store
	// refuse answers in the way of the store.
	refuse    func(w http.ResponseWriter, status int, code string)
	throttled string // code of the store
	missing   string // what it says when the bucket is missing
	// wrong returns the store with credentials that it refuses, and what is said then.
	wrong func(t *testing.T, s store) (store, string)
	// expiring returns the store with credentials that are accepted at first and refused where documents are read, and what is said then.
	expiring func(t *testing.T, s store) (store, string)
}

// with returns the store with more environment and options.
func (s store) with(env, args []string) store {
	s.env, s.args = slices.Concat(s.env, env), slices.Concat(s.args, args)
	return s
}

// ofDocuments reports whether a request is for a blob with documents.
func ofDocuments(r *http.Request) bool { return strings.Contains(r.URL.Path, "/__") }

// refusing returns the store behind a proxy that refuses requests while it is switched on.
func (k storeKind) refusing(t *testing.T, s store, on func(r *http.Request) bool, status int, code string) store {
	return s.behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if on(r) {
			k.refuse(w, status, code)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var storeKinds = []storeKind{
	{
		name: "S3", in: inS3, throttled: "SlowDown", missing: "the bucket does not exist; check its name, --s3-endpoint",
		refuse: func(w http.ResponseWriter, status int, code string) {
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>m</Message></Error>", code)
		},
		wrong: func(_ *testing.T, s store) (store, string) {
			return s.with([]string{"AWS_SECRET_ACCESS_KEY=wrong"}, nil), "check AWS_SECRET_ACCESS_KEY"
		},
		expiring: func(t *testing.T, s store) (store, string) {
			return storeKind{refuse: func(w http.ResponseWriter, status int, code string) {
				w.WriteHeader(status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>The provided token has expired.</Message></Error>", code)
			}}.refusing(t, s, ofDocuments, 400, "ExpiredToken"), "the keys have expired; get new ones (AWS_SESSION_TOKEN"
		},
	},
	{
		name: "Google Cloud Storage", in: inGCS, throttled: "rateLimitExceeded", missing: "the bucket does not exist; check its name and --gcs-endpoint",
		refuse: refuseAsGoogle,
		wrong: func(t *testing.T, s store) (store, string) {
			i := objectserver.StartIssuer(t, func(_ int64, w http.ResponseWriter) bool {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"error":"invalid_grant"}`)
				return true
			})
			return s.with(nil, []string{"--gcs-key-file", i.KeyFile}), "is the key deleted or disabled"
		},
		expiring: func(t *testing.T, s store) (store, string) {
			i := objectserver.StartIssuer(t, nil)
			return storeKind{refuse: refuseAsGoogle}.refusing(t, s.with(nil, []string{"--gcs-key-file", i.KeyFile}), ofDocuments, 401, "authError"),
				"the token has expired or is not valid here; check --gcs-key-file"
		},
	},
	{
		name: "Azure", in: inAzure, throttled: "ServerBusy", missing: "the bucket does not exist; check the name of the container, --azure-account",
		refuse: func(w http.ResponseWriter, status int, code string) {
			w.Header().Set("X-Ms-Error-Code", code)
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>m</Message></Error>", code)
		},
		wrong: func(t *testing.T, s store) (store, string) {
			other := filepath.Join(t.TempDir(), "key")
			must(t, os.WriteFile(other, []byte(base64.StdEncoding.EncodeToString([]byte("another"))), 0o600))
			return s.with(nil, []string{"--azure-key-file", other}), "is it the key of the account"
		},
		expiring: func(t *testing.T, s store) (store, string) {
			const lasts = 3 * time.Second
			file := filepath.Join(t.TempDir(), "signature")
			must(t, os.WriteFile(file, []byte(s.signature(t, lasts)), 0o600))
			return s.with(nil, []string{"--azure-key-file", file}).behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if ofDocuments(r) {
					time.Sleep(lasts + time.Second)
				}
				next.ServeHTTP(w, r)
			}), "write a new one into the file and run the same command again"
		},
	},
	{
		name: "web server", in: inWeb, missing: "no snapshot repository in http://",
		refuse: func(w http.ResponseWriter, status int, _ string) { w.WriteHeader(status) },
		wrong: func(t *testing.T, s store) (store, string) {
			return storeKind{refuse: func(w http.ResponseWriter, status int, _ string) { w.WriteHeader(status) }}.
				refusing(t, s, func(*http.Request) bool { return true }, 403, ""), "it must give the files to everyone"
		},
		expiring: func(t *testing.T, s store) (store, string) {
			return storeKind{refuse: func(w http.ResponseWriter, status int, _ string) { w.WriteHeader(status) }}.
				refusing(t, s, ofDocuments, 401, ""), "it must give the files to everyone"
		},
	},
}

func refuseAsGoogle(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":"m","errors":[{"reason":%q}]}}`, status, code)
}

// cutting is a response that is cut after some bytes of its body.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b[:min(len(b), c.left)])
	if c.left -= n; n < len(b) {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// contactWith is a store whose proxy misbehaves as long as it is switched on.
type contactWith struct {
	store
	on atomic.Bool
}

// faulty returns the store behind a proxy in which the behaviour is switched on.
func faulty(t *testing.T, s store, behave func(w http.ResponseWriter, r *http.Request, next http.Handler)) *contactWith {
	c := &contactWith{}
	c.on.Store(true)
	c.store = s.behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if c.on.Load() {
			behave(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
	return c
}

// exports runs an export of the store in a directory, and returns its result and the line that says why it ended.
func (s store) exports(t *testing.T, dir string, more ...string) (r Result, why string) {
	t.Helper()
	r = RunIn(t, dir, s.env, "rfsd", slices.Concat(exportArgs(s.uri, filepath.Join(dir, "out")), s.args, more)...)
	for line := range strings.Lines(r.Stderr) {
		if strings.HasPrefix(line, "rfsd: ") {
			return r, strings.TrimSpace(line)
		}
	}
	return r, ""
}

// arrives fails the test unless an export ends well and has every document.
func (s store) arrives(t *testing.T, dir, repo string) {
	t.Helper()
	r, _ := s.exports(t, dir)
	if r.Code != 0 {
		t.Fatalf("exit %d: %s%s", r.Code, r.Stderr, r.Stdout)
	}
	want, err := truth.Load(false, repo+".ndjson.gz")
	must(t, err)
	got, err := truth.LoadExport(filepath.Join(dir, "out"))
	must(t, err)
	if f := truth.Compare(want, got).Exact(); f != "" {
		t.Error(f)
	}
}

// ends fails the test unless an export ends with a code, and one line that says all.
func (s store) ends(t *testing.T, dir string, code int, says ...string) {
	t.Helper()
	r, why := s.exports(t, dir, "--unavailable-timeout", "1s")
	if r.Code != code {
		t.Errorf("exit %d, want %d: %s%s", r.Code, code, r.Stderr, r.Stdout)
	}
	for _, words := range says {
		if !strings.Contains(why, words) {
			t.Errorf("%q is not said: %s", words, r.Stderr)
		}
	}
	t.Logf("exit %d: %s", r.Code, why)
}

// TestReach_FaultsOfEachKindOfRepository: a fault that passes costs nothing; one that stays ends the run with exit code 1 and a line that
// names the cause and the way on. The same command then goes on, and nothing is taken for damage.
func TestReach_FaultsOfEachKindOfRepository(t *testing.T) {
	if testing.Short() || os.Getenv("RFSD_E2E") == "" {
		t.Skip("waits for retries: RFSD_E2E=1 runs it")
	}
	repo := fixture(t, "7.10.2-many-chunks")
	for _, k := range draw.Of(t, 1, storeKinds) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.in(t, repo)
			run := func(name string, test func(t *testing.T, dir string)) {
				t.Run(name, func(t *testing.T) {
					t.Parallel() // it mostly waits
					test(t, t.TempDir())
				})
			}
			run("no fault", func(t *testing.T, dir string) { s.arrives(t, dir, repo) })
			run("wrong credentials", func(t *testing.T, dir string) {
				bad, says := k.wrong(t, s)
				bad.ends(t, dir, 1, says)
			})
			run("missing bucket", func(t *testing.T, dir string) {
				bad, code := s, 1
				bad.uri = strings.Replace(s.uri, "/bucket/", "/nowhere/", 1)
				if k.name == "web server" { // which has no buckets
					bad.uri, code = s.endpoint+"/nowhere", 5
				}
				bad.ends(t, dir, code, k.missing)
			})
			run("missing folder", func(t *testing.T, dir string) {
				bad := s
				bad.uri = s.uri + "-none"
				bad.ends(t, dir, 5, "no snapshot repository in", "index.latest")
			})
			run("credentials expire", func(t *testing.T, dir string) {
				bad, says := k.expiring(t, s)
				bad.ends(t, dir, 1, says)
			})
			for _, status := range []int{503, 429} {
				run(fmt.Sprint("throttled by ", status, " for a time"), func(t *testing.T, dir string) {
					var first atomic.Int64
					var times atomic.Int64
					k.refusing(t, s, func(*http.Request) bool {
						first.CompareAndSwap(0, time.Now().UnixNano())
						again := time.Since(time.Unix(0, first.Load())) < time.Second
						if again {
							times.Add(1)
						}
						return again
					}, status, k.throttled).arrives(t, dir, repo)
					if times.Load() < 2 {
						t.Errorf("%d requests were refused", times.Load())
					}
				})
			}
			for name, on := range map[string]func(r *http.Request) bool{"at first": func(*http.Request) bool { return true }, "at documents": ofDocuments} {
				further := map[string]string{"at documents": "run the same command again to continue"}[name]
				run("throttled without end "+name, func(t *testing.T, dir string) {
					bad := faulty(t, s, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
						if on(r) {
							k.refuse(w, 503, k.throttled)
							return
						}
						next.ServeHTTP(w, r)
					})
					bad.ends(t, dir, 1, "503", k.throttled, "try again later", further)
					bad.on.Store(false)
					bad.arrives(t, dir, repo)
				})
				run("cut without end "+name, func(t *testing.T, dir string) {
					bad := faulty(t, s, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
						if r.Method == http.MethodGet && on(r) {
							w = &cutting{w, 0}
						}
						next.ServeHTTP(w, r)
					})
					bad.ends(t, dir, 1, "unexpected EOF", further)
					bad.on.Store(false)
					bad.arrives(t, dir, repo)
				})
			}
			run("cut sometimes", func(t *testing.T, dir string) {
				var n atomic.Int64
				s.behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if r.Method == http.MethodGet && n.Add(1)%2 == 0 {
						w = &cutting{w, 40}
					}
					next.ServeHTTP(w, r)
				}).arrives(t, dir, repo)
			})
			run("200 instead of 206", func(t *testing.T, dir string) {
				var whole atomic.Int64
				s.behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					_, name, found := strings.Cut(r.URL.Path, "/snapshots/")
					if !found || !ofDocuments(r) || r.Method != http.MethodGet {
						next.ServeHTTP(w, r)
						return
					}
					r.Header.Del("Range")
					whole.Add(1)
					http.ServeFile(w, r, filepath.Join(repo, filepath.FromSlash(name)))
				}).arrives(t, dir, repo)
				if whole.Load() == 0 {
					t.Error("no blob was given whole")
				}
			})
		})
	}
}
