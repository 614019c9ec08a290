package target

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestATargetThatDoesNotAnswerIsNamedOnceWithARemedy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	secure := httptest.NewTLSServer(answer(200, `{}`))
	defer secure.Close()
	hangsUp := hangingUp(t, nil)
	silent := hangingUp(t, secure.TLS)
	mutual := secure.TLS.Clone()
	mutual.ClientAuth, mutual.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
	for _, c := range []struct {
		name, url, address, remedy string
		category                   error
	}{
		{"nothing listens", "http://" + closed, closed, "connection refused; check --target-host, and whether the cluster runs", fault.ErrUnavailable},
		{"a certificate of an unknown authority", secure.URL, strings.TrimPrefix(secure.URL, "https://"), "--target-cacert", fault.ErrConfig},
		{"a connection that ends immediately", "http://" + hangsUp, hangsUp, hangsUp, fault.ErrUnavailable},
		{"a port of TLS that ends what is none", "http://" + silent, silent, "give https://", fault.ErrConfig},
		{"a port of TLS that wants a certificate", "http://" + hangingUp(t, mutual), "", "give https://", fault.ErrConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := New(t.Context(), Config{URL: c.url, Role: "target"})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Info(t.Context())
			if !errors.Is(err, c.category) || !strings.Contains(err.Error(), c.remedy) || strings.Contains(err.Error(), `"http`) {
				t.Errorf("%v", err)
			}
			if hint := strings.Contains(err.Error(), "TLS"); hint != (c.remedy == "give https://") {
				t.Errorf("it is about TLS: %v: %v", hint, err)
			}
			if n := strings.Count(err.Error(), c.address); c.address != "" && n > 2 { // the client's and, of a refused connection, the kernel's
				t.Errorf("the address is there %d times: %v", n, err)
			}
		})
	}
}

// hangingUp returns an address where each connection is ended that does not begin with a TLS handshake; with nil each one.
func hangingUp(t *testing.T, conf *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { l.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if conf != nil {
				_ = tls.Server(c, conf).HandshakeContext(t.Context()) // what else fails ends the connection, too
			}
			c.Close()
		}
	})
	return l.Addr().String()
}
