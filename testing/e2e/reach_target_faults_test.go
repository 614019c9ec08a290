package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/testing/draw"
)

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

func basic(password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+password))
}

// Requests that a fault of a target concerns.
var everyRequest func(*http.Request) bool

func withDocuments(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/_bulk") && !r.URL.Query().Has("require_alias")
}

func ofCreation(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Count(r.URL.Path, "/") == 1 && !strings.HasPrefix(r.URL.Path, "/_")
}

// instead answers in place of the target.
func instead(answer http.HandlerFunc) behaviour {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) { answer(w, r) }
}

// cutAfter cuts an answer, which the target has given, after some bytes.
func cutAfter(n int) behaviour {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(&cutting{w, n}, r) }
}

// silent reads the request and does not answer.
func silent(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// refusesFirst lets the target take all documents of a body but the first, which has an error of its own.
func refusesFirst(status int, kind, reason string) behaviour {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		lines := bytes.SplitAfterN(body, []byte("\n"), 3)
		answer := httptest.NewRecorder()
		answer.Body.WriteString(`{"took":0,"errors":true,"items":[]}`)
		if len(lines) == 3 && len(lines[2]) > 0 {
			answer = httptest.NewRecorder()
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(lines[2])), int64(len(lines[2]))
			next.ServeHTTP(answer, r)
		}
		var got struct {
			Items []json.RawMessage `json:"items"`
		}
		if answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &got) != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		item, err := json.Marshal(map[string]any{"index": map[string]any{"status": status, "error": map[string]string{"type": kind, "reason": reason}}})
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"took": 1, "errors": true, "items": slices.Insert(got.Items, 0, json.RawMessage(item))})
	}
}

// targetFault is what a target, or what is before it, does for a time or without end.
type targetFault struct {
	name   string
	on     func(r *http.Request) bool
	behave func(k targetKind) behaviour
	says   []string // of a run that the fault ends; nil: as the kind says that it denies
	lasts  bool     // it ends a run at its first appearance
	code   int      // of the run
}

const (
	continues = "run the same command again to continue"
	addDisks  = "free space there, or add disks"
)

func of(f behaviour) func(targetKind) behaviour {
	return func(targetKind) behaviour { return f }
}

var targetFaults = []targetFault{
	{"429", withDocuments, of(instead(says(429, "rejected_execution_exception", "rejected execution of coordinating operation"))), []string{"429", continues}, false, 1},
	{"502 with a page", withDocuments, of(instead(page(502, "502 Bad Gateway"))), []string{"502", "the answer is a page", continues}, false, 1},
	{"503", withDocuments, of(instead(says(503, "cluster_manager_not_discovered_exception", ""))), []string{"503", continues}, false, 1},
	{"503 at the creation of indices", ofCreation, of(instead(says(503, "process_cluster_event_timeout_exception", "failed to process cluster event (create-index) within 30s"))), []string{"503", continues}, false, 1},
	{"an answer cut after its head", withDocuments, of(cutAfter(0)), []string{"EOF", continues}, false, 1},
	{"an answer cut in the middle", withDocuments, of(cutAfter(300)), []string{"EOF", continues}, false, 1},
	{"429 for single documents", withDocuments, of(refusesFirst(429, "rejected_execution_exception", "rejected execution of primary operation")), []string{"429", continues}, false, 1},
	{"a page with status 200", withDocuments, of(instead(page(200, "Please log in"))), []string{"the answer is a page, not the response of a cluster; check the address: Please log in", continues}, false, 1},
	{"disks above the high watermark", ofCreation, of(instead(says(403, "index_create_block_exception", "blocked by: [FORBIDDEN/10/cluster create-index blocked (api)];"))), []string{"above their high watermark", addDisks, continues}, false, 1},
	{"a disk above its flood stage", withDocuments, of(refusesFirst(429, "cluster_block_exception", "index [x] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];")), []string{"above its flood stage", addDisks, continues}, false, 1},
	{"no permission to write", withDocuments, func(k targetKind) behaviour { return instead(k.deny) }, nil, true, 1},
	{"no permission to write single documents", withDocuments, of(refusesFirst(403, "security_exception", "no permissions for [indices:data/write/bulk[s]] and User [name=ann, backend_roles=[], requestedTenant=null]")), []string{"are paused", "PERMISSIONS.md has roles", "repair the target and run the same command again"}, true, 1},
	{"no permission to create indices", ofCreation, func(k targetKind) behaviour { return instead(k.deny) }, nil, true, 7},
	{"503 at first", everyRequest, of(instead(says(503, "cluster_manager_not_discovered_exception", ""))), []string{"503", continues}, false, 1},
	{"a page instead of a cluster", everyRequest, of(instead(page(200, "Please log in"))), []string{"check the address"}, true, 1},
}

// TestReach_FaultsOfEachKindOfTarget: a fault that passes costs nothing; one that stays ends the run with exit code 1 and a line that names
// the cause and the way on. The same command then goes on, and every document has arrived.
func TestReach_FaultsOfEachKindOfTarget(t *testing.T) {
	if testing.Short() || os.Getenv("RFSD_E2E") == "" {
		t.Skip("waits for retries: RFSD_E2E=1 runs it")
	}
	for _, k := range draw.Of(t, 1, targetKinds) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			run := func(name string, test func(t *testing.T, d *door, dir string)) {
				t.Run(name, func(t *testing.T) {
					t.Parallel() // it mostly waits
					test(t, openDoor(t, k), t.TempDir())
				})
			}
			run("no fault", func(t *testing.T, d *door, dir string) { d.arrives(t, dir) })
			run("wrong credential", func(t *testing.T, d *door, dir string) {
				env, args := k.wrong(t, d)
				d.ends(t, dir, 1, env, args, k.wrongSays)
				d.arrives(t, dir)
			})
			run("credential expires", func(t *testing.T, d *door, dir string) { expires(t, d, dir) })
			if k.secure {
				run("another authority", func(t *testing.T, d *door, dir string) {
					d.ends(t, dir, 1, nil, []string{"--target-cacert", otherAuthority(t)}, "its certificate is not trusted, give --target-cacert")
				})
			}
			run("clock", func(t *testing.T, d *door, dir string) {
				if d.signed == nil {
					t.Skip("requests are not signed")
				}
				d.signed.Now = func() time.Time { return time.Now().Add(10 * time.Minute) }
				d.ends(t, dir, 1, nil, nil, "set this machine's clock")
				d.signed.Now = nil
				d.arrives(t, dir)
			})
			run("nothing listens", func(t *testing.T, d *door, dir string) {
				there := d.url
				_, rest, _ := strings.Cut(there, "://")
				d.url = strings.Replace(there, rest, freeAddress(t), 1)
				d.ends(t, dir, 1, nil, nil, "does not answer", "connection refused; check --target-host, and whether the cluster runs")
				d.url = there
				d.arrives(t, dir)
			})
			run("unknown name", func(t *testing.T, d *door, dir string) {
				scheme, rest, _ := strings.Cut(d.url, "://")
				_, port, err := net.SplitHostPort(rest)
				must(t, err)
				d.url = scheme + "://nowhere.invalid:" + port
				d.ends(t, dir, 1, nil, nil, "nowhere.invalid", "check --target-host")
			})
			for name, on := range map[string]func(*http.Request) bool{"at first": everyRequest, "at documents": withDocuments} {
				run("redirect "+name, func(t *testing.T, d *door, dir string) {
					var others atomic.Int64
					other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
					defer other.Close()
					d.behave(on, instead(func(w http.ResponseWriter, r *http.Request) {
						http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
					}))
					d.ends(t, dir, 1, nil, nil, "redirects to "+other.URL, "give the address it redirects to")
					if others.Load() > 0 {
						t.Errorf("the other host got %d requests", others.Load())
					}
					d.behave(nil, nil)
					d.arrives(t, dir)
				})
			}
			if long() {
				run("no answer for a time", func(t *testing.T, d *door, dir string) { // the first requests are given up after two minutes
					d.passes(t, dir, withDocuments, silent, 1)
				})
			}
			for _, f := range targetFaults {
				words := f.says
				if words == nil {
					words = []string{k.denySays}
				}
				if !f.lasts {
					run(f.name+" for a time", func(t *testing.T, d *door, dir string) {
						d.passes(t, dir, f.on, f.behave(k), 2)
					})
				}
				run(f.name+" without end", func(t *testing.T, d *door, dir string) {
					d.behave(f.on, f.behave(k))
					d.ends(t, dir, f.code, nil, nil, words...)
					d.behave(nil, nil)
					d.arrives(t, dir)
				})
			}
		})
	}
}

// passes fails the test unless a migration outlasts a fault that lasts for a moment, in which it occurs so often.
func (d *door) passes(t *testing.T, dir string, on func(*http.Request) bool, fails behaviour, least int64) {
	t.Helper()
	var first, times atomic.Int64
	d.behave(on, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		first.CompareAndSwap(0, time.Now().UnixNano())
		if time.Since(time.Unix(0, first.Load())) > 1500*time.Millisecond {
			next.ServeHTTP(w, r)
			return
		}
		times.Add(1)
		fails(w, r, next)
	})
	d.arrives(t, dir)
	if times.Load() < least {
		t.Errorf("it happened %d times", times.Load())
	}
}

// expires lets the credential expire at the third request with documents: a run ends and the next continues with another credential. A
// file is replaced in the same moment, which the run notices.
func expires(t *testing.T, d *door, dir string) {
	var n atomic.Int64
	d.behave(withDocuments, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if n.Add(1) == 3 {
			d.kind.expire(t, d)
			if d.kind.renewed {
				d.kind.renew(t, d)
			}
		}
		next.ServeHTTP(w, r)
	})
	if !d.kind.renewed {
		d.ends(t, dir, 1, nil, nil, d.kind.expiredSays)
		d.kind.renew(t, d)
	}
	d.arrives(t, dir)
	if n.Load() < 4 {
		t.Errorf("%d requests with documents", n.Load())
	}
}

// otherAuthority returns a file with an authority that has signed nothing.
func otherAuthority(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	_, err := cert.CreateAuthority(dir, "blue", time.Now())
	must(t, err)
	return filepath.Join(dir, "ca.crt")
}
