package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/fakecluster"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/serverless"
	"github.com/rfsd/rfsd/testing/signer"
	"github.com/rfsd/rfsd/testing/truth"
)

// behaviour answers a request in place of the target, or passes it on.
type behaviour func(w http.ResponseWriter, r *http.Request, next http.Handler)

// door is a target of one kind: the check of the credential, a fault, and a cluster in memory.
type door struct {
	kind      targetKind
	url       string
	env, args []string
	cluster   *fakecluster.Cluster
	secrets   []string               // that no output may have
	accepts   atomic.Pointer[string] // header Authorization
	signed    *signer.Verifier       // nil: requests are not signed
	fault     atomic.Pointer[behaviour]
	front     atomic.Pointer[behaviour] // before the check of credentials
}

// targetKind is a kind of target behind a network.
type targetKind struct {
	name   string
	open   func(t *testing.T, d *door)
	secure bool // TLS with an authority of its own
	// wrong has a credential that the target refuses, and wrongSays what is said then.
	wrong     func(t *testing.T, d *door) (env, args []string)
	wrongSays string
	// expire lets the target refuse the credential, and renew replaces that where the process finds it, or for the next one.
	expire, renew func(t *testing.T, d *door)
	expiredSays   string
	renewed       bool // a running process finds the renewed credential
	// deny refuses an action in the way of the kind, and denySays is what is said then.
	deny     http.HandlerFunc
	denySays string
}

const canarySecret = "canary-of-a-target"

// askedFor answers requests with another header Authorization than the accepted one.
func (d *door) askedFor(refuse http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != *d.accepts.Load() {
			refuse(w, r)
			return
		}
		d.ServeHTTP(w, r)
	})
}

// ServeHTTP answers a request with an accepted credential: by the fault, or by the cluster.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := d.fault.Load(); f != nil {
		(*f)(w, r, d.cluster)
		return
	}
	d.cluster.ServeHTTP(w, r)
}

func (d *door) accept(header string) { d.accepts.Store(&header) }

// behindFront returns a handler behind the fault that is before all others.
func (d *door) behindFront(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := d.front.Load(); f != nil {
			(*f)(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serve starts a server that checks credentials.
func (d *door) serve(t *testing.T, checked http.Handler) {
	t.Helper()
	s := httptest.NewUnstartedServer(d.behindFront(checked))
	s.Config.ErrorLog = quietLog()
	t.Cleanup(s.Close)
	if !d.kind.secure {
		s.Start()
		d.url = s.URL
		return
	}
	s.StartTLS()
	d.url = s.URL
	authority := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	d.args = append(d.args, "--target-cacert", authority)
}

// says answers with a status and an error of a cluster.
func says(status int, kind, reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		cause := map[string]string{"type": kind, "reason": reason}
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"root_cause": []any{cause}, "type": kind, "reason": reason}, "status": status})
	}
}

// page answers with a status and a page of a proxy.
func page(status int, title string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<html>\n<head><title>%s</title></head>\n<body><center><h1>%[1]s</h1></center><hr>nginx</body></html>", title)
	}
}

func unauthorized(scheme string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", scheme+` realm="OpenSearch Security"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "Unauthorized")
	}
}

var notPermitted = says(403, "security_exception", "no permissions for [indices:data/write/bulk[s]] and User [name=ann, backend_roles=[], requestedTenant=null]")

// awsSays answers as the front end of AWS does.
func awsSays(message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]string{"Message": message})
	}
}

const awsRegion, awsKey = "eu-west-1", "AKIDOFATARGET"

// awsEnvironment returns the environment with a key and nothing else of AWS.
func awsEnvironment(t *testing.T, secret, token string) []string {
	none := filepath.Join(t.TempDir(), "none")
	return []string{"AWS_ACCESS_KEY_ID=" + awsKey, "AWS_SECRET_ACCESS_KEY=" + secret, "AWS_SESSION_TOKEN=" + token, "AWS_PROFILE=", "AWS_REGION=",
		"AWS_CONFIG_FILE=" + none, "AWS_SHARED_CREDENTIALS_FILE=" + none, "AWS_EC2_METADATA_DISABLED=true"}
}

// signedKind is a target that takes signed requests.
func signedKind(name, action string, open func(t *testing.T, d *door)) targetKind {
	return targetKind{
		name: name, open: open,
		wrong: func(t *testing.T, _ *door) ([]string, []string) {
			return awsEnvironment(t, "another", canarySecret+"-token"), nil
		},
		wrongSays: "check the secret access key",
		expire:    func(_ *testing.T, d *door) { d.signed.Expire() },
		renew: func(_ *testing.T, d *door) {
			d.signed.Add(awsKey, signer.Key{Secret: canarySecret, Token: canarySecret + "-token"})
		},
		expiredSays: "check the access key and its session token (AWS_SESSION_TOKEN)",
		deny:        awsSays("User: arn:aws:iam::123456789012:user/ann is not authorized to perform: " + action),
		denySays:    "check that the access policy of the target admits them",
	}
}

var targetKinds = []targetKind{
	{
		name: "user over TLS", secure: true,
		open: func(t *testing.T, d *door) {
			d.accept(basic(canarySecret))
			d.env, d.args = []string{"RFS_TARGET_PASSWORD=" + canarySecret}, []string{"--target-username", "ann"}
			d.serve(t, d.askedFor(unauthorized("Basic")))
		},
		wrong:       func(*testing.T, *door) ([]string, []string) { return []string{"RFS_TARGET_PASSWORD=another"}, nil },
		wrongSays:   "check --target-username and the password (--target-password-file or RFS_TARGET_PASSWORD)",
		expire:      func(_ *testing.T, d *door) { d.accept(basic("of today")) },
		renew:       func(_ *testing.T, d *door) { d.env = []string{"RFS_TARGET_PASSWORD=of today"} },
		expiredSays: "check --target-username and the password", deny: notPermitted, denySays: "PERMISSIONS.md has roles",
	},
	{
		name: "API key",
		open: func(t *testing.T, d *door) {
			key := filepath.Join(t.TempDir(), "key")
			must(t, os.WriteFile(key, []byte(canarySecret), 0o600))
			d.accept("ApiKey " + canarySecret)
			d.args = []string{"--target-api-key-file", key}
			d.serve(t, d.askedFor(says(401, "security_exception", "unable to authenticate with provided credentials and anonymous access is not allowed for this request")))
		},
		wrong: func(t *testing.T, _ *door) ([]string, []string) {
			key := filepath.Join(t.TempDir(), "key")
			must(t, os.WriteFile(key, []byte("another"), 0o600))
			return nil, []string{"--target-api-key-file", key}
		},
		wrongSays:   "check --target-api-key-file or RFS_TARGET_API_KEY, and whether the key has expired",
		expire:      func(_ *testing.T, d *door) { d.accept("ApiKey of-today") },
		renew:       func(t *testing.T, d *door) { must(t, os.WriteFile(d.args[1], []byte("of-today"), 0o600)) },
		expiredSays: "whether the key has expired", deny: notPermitted, denySays: "PERMISSIONS.md has roles",
	},
	{
		name: "token in a file",
		open: func(t *testing.T, d *door) {
			d.args = []string{"--target-token-file", filepath.Join(t.TempDir(), "token")}
			d.accept("Bearer " + canarySecret)
			must(t, os.WriteFile(d.args[1], []byte(canarySecret), 0o600))
			d.serve(t, d.askedFor(unauthorized("Bearer")))
		},
		wrong: func(t *testing.T, _ *door) ([]string, []string) {
			file := filepath.Join(t.TempDir(), "token")
			must(t, os.WriteFile(file, []byte("another"), 0o600))
			return nil, []string{"--target-token-file", file}
		},
		wrongSays: "check --target-token-file or RFS_TARGET_TOKEN, and whether the token has expired",
		expire:    func(_ *testing.T, d *door) { d.accept("Bearer of-today") },
		renew: func(t *testing.T, d *door) {
			must(t, os.WriteFile(d.args[1]+"-new", []byte("of-today"), 0o600))
			must(t, os.Rename(d.args[1]+"-new", d.args[1]))
		},
		renewed: true, expiredSays: "whether the token has expired", deny: notPermitted, denySays: "PERMISSIONS.md has roles",
	},
	signedKind("Amazon OpenSearch Service", "es:ESHttpPost", func(t *testing.T, d *door) {
		d.signed = &signer.Verifier{Region: awsRegion, Service: "es"}
		d.env, d.args = awsEnvironment(t, canarySecret, canarySecret+"-token"), []string{"--target-aws-sigv4", "--target-aws-region", awsRegion}
		d.serve(t, d.signed.Handler(d))
	}),
	signedKind("collection", "aoss:APIAccessAll", func(t *testing.T, d *door) {
		node := httptest.NewUnstartedServer(d)
		node.Config.ErrorLog = quietLog()
		node.Start()
		t.Cleanup(node.Close)
		c := &serverless.Collection{Type: serverless.Search, Refresh: 100 * time.Millisecond}
		server, signed, err := c.Start(awsRegion, node.URL)
		must(t, err)
		t.Cleanup(server.Close)
		server.Config.Handler = d.behindFront(server.Config.Handler)
		d.url, d.signed = server.URL, signed
		d.env, d.args = awsEnvironment(t, canarySecret, canarySecret+"-token"), []string{"--target-aws-sigv4", "--target-aws-service", "aoss", "--target-aws-region", awsRegion}
	}),
}

// openDoor starts a target of a kind.
func openDoor(t *testing.T, k targetKind) *door {
	t.Helper()
	d := &door{kind: k, cluster: fakecluster.New(), secrets: []string{canarySecret}}
	k.open(t, d)
	if d.signed != nil {
		k.renew(t, d)
	}
	return d
}

// behave sets a fault for some requests; nil: none. A fault of every request is before the check of credentials.
func (d *door) behave(on func(*http.Request) bool, f behaviour) {
	if f == nil {
		d.fault.Store(nil)
		d.front.Store(nil)
		return
	}
	all := behaviour(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if on(r) {
			f(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
	if on == nil {
		d.front.Store(&f)
		return
	}
	d.fault.Store(&all)
}

// migrates runs a migration in a directory, and returns its result and the line that says why it ended.
func (d *door) migrates(t *testing.T, dir string, env []string, more ...string) (r Result, why string) {
	t.Helper()
	args := slices.Concat(targetArgs(d.url, demoRepo(), "--coordinator-file", filepath.Join(dir, "c.db"), "--documents-per-bulk-request", "20", "--disable-compression"), d.args, more)
	r = RunIn(t, dir, append(slices.Clone(d.env), env...), "rfsd", args...)
	for line := range strings.Lines(r.Stderr) {
		if strings.HasPrefix(line, "rfsd: ") {
			why = strings.TrimSpace(line)
		}
	}
	said := r.Stdout + r.Stderr
	for _, secret := range d.secrets {
		if strings.Contains(said, secret) {
			t.Errorf("a secret is shown: %s", said)
		}
	}
	if strings.Contains(said, "goroutine ") {
		t.Errorf("it panicked: %s", said)
	}
	if twice := outputtest.Repeated(why); twice != "" {
		t.Errorf("%q is said twice: %s", twice, why)
	}
	return r, why
}

// demoDocuments returns the documents of the demo as a cluster in memory holds them.
func demoDocuments(t *testing.T) map[fakecluster.Key]string {
	t.Helper()
	all, err := truth.Load(false, demoRepo()+".ndjson.gz")
	must(t, err)
	want := map[fakecluster.Key]string{}
	for k, source := range visible(all) {
		want[fakecluster.Key{Index: k.Index, ID: k.ID, Routing: k.Routing}] = string(source)
	}
	return want
}

// arrives fails the test unless a migration ends well and the cluster has every document as it is in the snapshot.
func (d *door) arrives(t *testing.T, dir string) {
	t.Helper()
	r, _ := d.migrates(t, dir, nil)
	if r.Code != 0 {
		t.Fatalf("exit %d: %s%s", r.Code, r.Stderr, r.Stdout)
	}
	if got, want := d.cluster.Documents(), demoDocuments(t); !maps.Equal(got, want) {
		t.Errorf("the cluster has %d documents of %d, or other ones", len(got), len(want))
	}
	if unknown := d.cluster.Unknown(); len(unknown) > 0 {
		t.Errorf("unknown to the cluster: %q", unknown)
	}
}

// ends fails the test unless a migration ends with a code, and one line that says all. With 7 the log says it for each index.
func (d *door) ends(t *testing.T, dir string, code int, env, args []string, says ...string) {
	t.Helper()
	r, why := d.migrates(t, dir, env, append(slices.Clone(args), "--unavailable-timeout", "1s")...)
	if r.Code != code {
		t.Errorf("exit %d, not %d: %s%s", r.Code, code, r.Stderr, r.Stdout)
	}
	if code == 7 {
		why = r.Stderr
	}
	for _, words := range says {
		if !strings.Contains(why, words) {
			t.Errorf("%q is not said: %s", words, r.Stderr)
		}
	}
	t.Logf("exit %d: %s", r.Code, why)
}
