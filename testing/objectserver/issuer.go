package objectserver

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// Issuer issues the tokens token-1, token-2, … of Google for the key in a file.
type Issuer struct {
	KeyFile string // of a service account
	given   atomic.Int64
}

// Given returns how many tokens were requested.
func (i *Issuer) Given() int64 { return i.given.Load() }

// StartIssuer starts an issuer. refuse, which may be nil, answers request n, from 1, and returns true, or returns false.
func StartIssuer(t testing.TB, refuse func(n int64, w http.ResponseWriter) bool) *Issuer {
	t.Helper()
	i := &Issuer{KeyFile: filepath.Join(t.TempDir(), "key.json")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n := i.given.Add(1)
		if refuse != nil && refuse(n, w) {
			return
		}
		if req.ParseForm() != nil || req.Form.Get("assertion") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":3600}`, n)
	}))
	t.Cleanup(server.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "rfsd@project.iam", "private_key_id": "1", "token_uri": server.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(i.KeyFile, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}
