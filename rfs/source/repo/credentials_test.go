package repo_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/objectserver"
)

// googleStore is a store that takes one token and notes what it heard.
func googleStore(t *testing.T, takes *atomic.Value, heard *atomic.Value) string {
	t.Helper()
	content := body()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		heard.Store(req.Header.Get("Authorization"))
		if req.Header.Get("Authorization") != "Bearer "+takes.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"code":401,"message":"Invalid Credentials","errors":[{"reason":"authError"}]}}`)
			return
		}
		http.ServeContent(w, req, "object", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestGCS_ATokenThatIsNoLongerTakenIsReplaced: in the middle of a run, without the operator.
func TestGCS_ATokenThatIsNoLongerTakenIsReplaced(t *testing.T) {
	i := objectserver.StartIssuer(t, nil)
	var takes, heard atomic.Value
	takes.Store("token-1")
	g, err := repo.NewGCS(t.Context(), "gs://bucket", repo.GCSOptions{Endpoint: googleStore(t, &takes, &heard), KeyFile: i.KeyFile})
	if err != nil {
		t.Fatal(err)
	}
	r := repo.NewRetrying(g, quick())
	for range 3 {
		if _, err := repo.ReadAll(t.Context(), r, "b", 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if i.Given() != 1 {
		t.Errorf("%d tokens for 3 requests", i.Given())
	}
	takes.Store("token-2")
	if _, err := repo.ReadAll(t.Context(), r, "b", 1<<20); err != nil || i.Given() != 2 {
		t.Errorf("after the token was revoked: %v, %d tokens", err, i.Given())
	}
	takes.Store("none")
	if _, err := repo.ReadAll(t.Context(), r, "b", 1<<20); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "check --gcs-key-file") || strings.Contains(err.Error(), "token-") {
		t.Errorf("credentials that are not taken any more: %v", err)
	}
}

func TestGCS_CredentialsThatCannotWorkAreRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	refusing := objectserver.StartIssuer(t, func(_ int64, w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant","error_description":"Invalid JWT Signature. canary"}`)
		return true
	})
	down := objectserver.StartIssuer(t, func(_ int64, w http.ResponseWriter) bool { w.WriteHeader(http.StatusBadGateway); return true })
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(dir, "none"))
	for name, c := range map[string]struct {
		endpoint, file string
		want           error
		says           string
	}{
		"no file":              {"", filepath.Join(dir, "none"), fault.ErrConfig, "--gcs-key-file"},
		"no JSON":              {"", file("text", "canary"), fault.ErrConfig, "JSON file of a service account"},
		"another JSON":         {"", file("json", `{"secret":"canary"}`), fault.ErrConfig, "JSON file of a service account"},
		"an unknown type":      {"", file("type", `{"type":"canary"}`), fault.ErrConfig, "--gcs-key-file"},
		"a broken key":         {"https://127.0.0.1:1", file("key", `{"type":"service_account","private_key":"canary"}`), fault.ErrUnavailable, "no Google token"},
		"a deleted key":        {"https://127.0.0.1:1", refusing.KeyFile, fault.ErrConfig, "is the key deleted or disabled"},
		"an issuer that fails": {"https://127.0.0.1:1", down.KeyFile, fault.ErrUnavailable, "502"},
		"no TLS":               {"http://storage.example", refusing.KeyFile, fault.ErrConfig, "has no TLS"},
		"no environment":       {"", "", fault.ErrConfig, "GOOGLE_APPLICATION_CREDENTIALS"},
		"no address":           {"https://", refusing.KeyFile, fault.ErrConfig, "--gcs-endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := repo.NewGCS(t.Context(), "gs://bucket", repo.GCSOptions{Endpoint: c.endpoint, KeyFile: c.file})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(strings.ReplaceAll(err.Error(), `type "canary"`, ""), "canary") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestGCS_TheEnvironmentsCredentialsGoToGoogleOnly: another endpoint gets requests without them.
func TestGCS_TheEnvironmentsCredentialsGoToGoogleOnly(t *testing.T) {
	i := objectserver.StartIssuer(t, nil)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", i.KeyFile)
	var takes, heard atomic.Value
	takes.Store("token-1")
	g, err := repo.NewGCS(t.Context(), "gs://bucket", repo.GCSOptions{Endpoint: googleStore(t, &takes, &heard)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Open(t.Context(), "b", 0, 10); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "give --gcs-key-file") {
		t.Errorf("%v", err)
	}
	if heard.Load() != "" || i.Given() != 0 {
		t.Errorf("%d tokens, the endpoint heard %q", i.Given(), heard.Load())
	}
}

func TestAzure_CredentialsThatCannotWorkAreRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := file("key", base64.StdEncoding.EncodeToString([]byte("canary")))
	for name, c := range map[string]struct {
		o    repo.AzureOptions
		says string
	}{
		"no account":                 {repo.AzureOptions{KeyFile: key}, "--azure-account"},
		"a key without its account":  {repo.AzureOptions{Endpoint: "https://127.0.0.1", KeyFile: key}, "--azure-account"},
		"no file":                    {repo.AzureOptions{Account: "a", KeyFile: filepath.Join(dir, "none")}, "--azure-key-file"},
		"no key":                     {repo.AzureOptions{Account: "a", KeyFile: file("text", "canary!")}, "key of the storage account"},
		"an empty file":              {repo.AzureOptions{Account: "a", KeyFile: file("empty", "\n")}, "key of the storage account"},
		"two signatures":             {repo.AzureOptions{Account: "a", KeyFile: file("two", "sv=1&sig=canary\nsv=1&sig=canary")}, "one shared access signature"},
		"a signature without TLS":    {repo.AzureOptions{Account: "a", Endpoint: "http://storage.example", KeyFile: file("sas", "sv=1&sig=canary")}, "has no TLS"},
		"a signature in the address": {repo.AzureOptions{Endpoint: "https://a.blob.core.windows.net/?sig=1", KeyFile: key}, "without a signature"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := repo.NewAzure(t.Context(), "azblob://container", c.o)
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestAzure_ASignatureIsSentAndNeverShown: it is part of the address of each request.
func TestAzure_ASignatureIsSentAndNeverShown(t *testing.T) {
	sas := filepath.Join(t.TempDir(), "sas")
	if err := os.WriteFile(sas, []byte("?sv=2024-01-01&sig=canary%2F1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	content := body()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("sig") != "canary/1" || req.Header.Get("Authorization") != "" || strings.HasSuffix(req.URL.Path, "/denied") {
			w.Header().Set("X-Ms-Error-Code", "AuthorizationPermissionMismatch")
			w.WriteHeader(http.StatusForbidden)
			return
		}
		http.ServeContent(w, req, "blob", time.Time{}, bytes.NewReader(content))
	}))
	r, err := repo.NewAzure(t.Context(), "azblob://container/p", repo.AzureOptions{Endpoint: server.URL, KeyFile: sas})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := repo.ReadAll(t.Context(), r, "b", 1<<20); err != nil || !bytes.Equal(b, content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	_, denied := r.Open(t.Context(), "denied", 0, -1)
	server.Close()
	_, gone := r.Open(t.Context(), "b", 0, -1)
	for _, err := range []error{denied, gone} {
		if err == nil || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "sig=") {
			t.Errorf("%v", err)
		}
	}
}

// TestAzure_ARealServerRefusesAnotherKey: the error names what to check.
func TestAzure_ARealServerRefusesAnotherKey(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	a := objectserver.StartAzurite(t)
	other := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(other, []byte(base64.StdEncoding.EncodeToString([]byte("another"))), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    repo.AzureOptions
		says string
	}{
		"another key": {repo.AzureOptions{Account: a.Account, Endpoint: a.Endpoint, KeyFile: other}, "is it the key of the account"},
		"no key":      {repo.AzureOptions{Account: a.Account, Endpoint: a.Endpoint}, "give --azure-key-file"},
	} {
		r, err := repo.NewAzure(t.Context(), "azblob://bucket", c.o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Open(t.Context(), "b", 0, -1); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
