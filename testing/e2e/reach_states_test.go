package e2e

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/fakecluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// stateKind is a kind of store for the state of the work.
type stateKind struct {
	storeKind
	// refused and gone are the codes with which the kind denies access, and with which it lacks what it had.
	refused, gone string
	deniedSays    string
}

// stateKinds returns the kinds of stores.
func stateKinds() []stateKind {
	all := []stateKind{
		{refused: "AccessDenied", gone: "NoSuchKey", deniedSays: "AccessDenied"},
		{refused: "forbidden", gone: "notFound", deniedSays: "the credentials may not do this"},
		{refused: "AuthorizationPermissionMismatch", gone: "BlobNotFound", deniedSays: "the credentials may not do this"},
	}
	for i := range all {
		k := storeKinds[i]
		in := k.in
		k.in = func(t *testing.T, repo string) store { return in(t, repo).ofState() }
		all[i].storeKind = k
	}
	return append(all, stateKind{
		storeKind: storeKind{
			name: "cluster", throttled: "rejected_execution_exception",
			in: func(t *testing.T, _ string) store {
				n := cluster.OpenSearch(t, targets[0])
				return store{uri: n.URL, endpoint: n.URL, args: []string{"--coordinator-host", n.URL}}
			},
			refuse: func(w http.ResponseWriter, status int, code string) { says(status, code, "as ordered")(w, nil) },
		},
		refused: "security_exception", gone: "index_not_found_exception", deniedSays: "PERMISSIONS.md has roles",
	})
}

// ofState returns a bucket for the state of the work in place of a repository.
func (s store) ofState() store {
	state := s
	state.args = []string{"--coordinator-bucket", strings.Replace(s.uri, "/snapshots", "/state", 1)}
	for _, a := range s.args {
		if flag, is := strings.CutPrefix(a, "--"); is {
			a = "--coordinator-" + flag
		}
		state.args = append(state.args, a)
	}
	return state
}

// stateful is a migration into a cluster in memory whose state is elsewhere.
type stateful struct {
	kind    stateKind
	store   store
	cluster *fakecluster.Cluster
	url     string
	dir     string
	fault   atomic.Pointer[behaviour]
	bulks   atomic.Int64
}

// newStateful starts a cluster, and a proxy before the store.
func newStateful(t *testing.T, k stateKind, s store) *stateful {
	t.Helper()
	m := &stateful{kind: k, cluster: fakecluster.New(), dir: t.TempDir()}
	m.cluster.Watch(nil, func(r *http.Request) error {
		if withDocuments(r) {
			m.bulks.Add(1)
			time.Sleep(50 * time.Millisecond) // so that the state is read and written meanwhile
		}
		return nil
	})
	server := httptest.NewServer(m.cluster)
	t.Cleanup(server.Close)
	m.url = server.URL
	m.store = s.behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if f := m.fault.Load(); f != nil {
			(*f)(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
	return m
}

// session is of the test: the kinds share no state.
func (m *stateful) session() string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(m.dir[strings.LastIndex(m.dir, "TestReach")+len("TestReach"):]))
}

func (m *stateful) migrates(t *testing.T, s store, more ...string) (r Result, why string) {
	t.Helper()
	args := slices.Concat(targetArgs(m.url, demoRepo(), "--documents-per-bulk-request", "2", "--max-connections", "1", "--session-name", m.session()), s.args, more)
	r = RunIn(t, m.dir, s.env, "rfsd", args...)
	for line := range strings.Lines(r.Stderr) {
		if strings.HasPrefix(line, "rfsd: ") {
			why = strings.TrimSpace(line)
		}
	}
	if twice := outputtest.Repeated(why); twice != "" || strings.Contains(r.Stderr, "goroutine ") {
		t.Errorf("%q is said twice, or it panicked: %s", twice, r.Stderr)
	}
	return r, why
}

func (m *stateful) arrives(t *testing.T) {
	t.Helper()
	if r, _ := m.migrates(t, m.store); r.Code != 0 {
		t.Fatalf("exit %d: %s%s", r.Code, r.Stderr, r.Stdout)
	}
	if got, want := m.cluster.Documents(), demoDocuments(t); !maps.Equal(got, want) {
		t.Errorf("the cluster has %d documents of %d, or other ones", len(got), len(want))
	}
}

func (m *stateful) ends(t *testing.T, s store, words ...string) {
	t.Helper()
	r, why := m.migrates(t, s, "--unavailable-timeout", "1s")
	if r.Code != 1 {
		t.Errorf("exit %d: %s%s", r.Code, r.Stderr, r.Stdout)
	}
	for _, w := range words {
		if !strings.Contains(why, w) {
			t.Errorf("%q is not said: %s", w, r.Stderr)
		}
	}
	t.Logf("exit %d: %s", r.Code, why)
}

// behave sets a fault: at first, or when documents have arrived.
func (m *stateful) behave(later bool, f behaviour) {
	after := behaviour(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if later && m.bulks.Load() < 3 {
			next.ServeHTTP(w, r)
			return
		}
		f(w, r, next)
	})
	m.fault.Store(&after)
}

// TestReach_FaultsOfEachKindOfState: a fault of the store of the state that passes costs nothing; one that stays ends the run with exit code
// 1 and a line that names the cause. The same command then goes on, unless the state is gone, and no document is lost.
func TestReach_FaultsOfEachKindOfState(t *testing.T) {
	if testing.Short() || os.Getenv("RFSD_E2E") == "" {
		t.Skip("waits for retries: RFSD_E2E=1 runs it")
	}
	for _, k := range draw.Of(t, 1, stateKinds()) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.in(t, t.TempDir())
			run := func(name string, test func(t *testing.T, m *stateful)) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, newStateful(t, k, s))
				})
			}
			run("no fault", func(t *testing.T, m *stateful) { m.arrives(t) })
			answer := func(status int, code string) behaviour {
				return instead(func(w http.ResponseWriter, _ *http.Request) { k.refuse(w, status, code) })
			}
			if k.wrong != nil {
				run("wrong credentials", func(t *testing.T, m *stateful) {
					bad, says := k.wrong(t, m.store)
					if i := slices.Index(bad.args, "--gcs-key-file"); i >= 0 {
						bad.args[i] = "--coordinator-gcs-key-file"
					} else if i := slices.Index(bad.args, "--azure-key-file"); i >= 0 {
						bad.args[i] = "--coordinator-azure-key-file"
					}
					m.ends(t, bad, says)
					m.arrives(t)
				})
				run("missing bucket", func(t *testing.T, m *stateful) {
					bad := m.store
					bad.args = slices.Clone(bad.args)
					bad.args[1] = strings.Replace(bad.args[1], "/bucket/", "/nowhere/", 1)
					m.ends(t, bad, "the bucket does not exist")
				})
			}
			for name, later := range map[string]bool{" at first": false, " in the middle": true} {
				for _, f := range []struct {
					name   string
					says   []string
					behave behaviour
				}{
					{"429", []string{"429"}, answer(429, k.throttled)},
					{"503", []string{"503"}, answer(503, k.throttled)},
					{"cut", []string{"EOF"}, cutAfter(0)},
				} {
					run(f.name+" for a time"+name, func(t *testing.T, m *stateful) {
						var first atomic.Int64
						m.behave(later, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
							first.CompareAndSwap(0, time.Now().UnixNano())
							if time.Since(time.Unix(0, first.Load())) > time.Second {
								next.ServeHTTP(w, r)
								return
							}
							f.behave(w, r, next)
						})
						m.arrives(t)
						if first.Load() == 0 {
							t.Error("it did not happen")
						}
					})
					if (later || f.name == "cut") && !long() {
						continue // the store is asked again for minutes
					}
					run(f.name+" without end"+name, func(t *testing.T, m *stateful) {
						m.behave(later, f.behave)
						m.ends(t, m.store, f.says...)
						m.fault.Store(nil)
						m.arrives(t)
					})
				}
				run("access refused"+name, func(t *testing.T, m *stateful) {
					m.behave(later, answer(403, k.refused))
					m.ends(t, m.store, k.deniedSays)
					m.fault.Store(nil)
					m.arrives(t)
				})
			}
			run("gone in the middle", func(t *testing.T, m *stateful) {
				var writes atomic.Int64
				m.behave(true, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
					if r.Method == http.MethodPut && !strings.Contains(r.URL.Path, "/_") {
						writes.Add(1)
					}
					k.refuse(w, 404, k.gone)
				})
				m.ends(t, m.store, "the coordination store is gone")
				if k.name == "cluster" && writes.Load() > 0 {
					t.Error("an index was made in its place")
				}
			})
		})
	}
}
