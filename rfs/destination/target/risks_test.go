package target

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRisks(t *testing.T) {
	for _, c := range []struct {
		name string
		conf Config
		want string // "": none
	}{
		{"https", Config{URL: "https://h:9200", Username: "u", Password: "canary"}, ""},
		{"not verified", Config{URL: "https://h:9200", Insecure: true}, "--target-insecure"},
		{"not verified, of the source", Config{Role: "source", URL: "https://h:9200", Insecure: true}, "--source-cacert"},
		{"a password over plain http", Config{URL: "http://h:9200", Username: "u", Password: "canary"}, "plain http"},
		{"a user in the address", Config{URL: "http://u:canary@h:9200"}, "plain http"},
		{"no password", Config{URL: "http://h:9200"}, ""},
		{"this machine", Config{URL: "http://127.0.0.1:9200", Username: "u", Password: "canary"}, ""},
		{"this machine by name", Config{URL: "http://localhost:9200", Username: "u"}, ""},
		{"no cluster", Config{Username: "u", Insecure: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(c.conf.Risks(), "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || strings.Contains(got, "canary") {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestTheNamedAuthorityIsTheOnlyOne: one that the system knows does not speak for the target.
func TestTheNamedAuthorityIsTheOnlyOne(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	conf, err := Config{CACert: file}.tls()
	if err != nil {
		t.Fatal(err)
	}
	only := x509.NewCertPool()
	only.AddCert(s.Certificate())
	if !conf.RootCAs.Equal(only) {
		t.Error("other authorities count, too")
	}
}
