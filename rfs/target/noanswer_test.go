package target

import (
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/fault"
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
	hangsUp, err := net.Listen("tcp", "127.0.0.1:0") // as a port of TLS does without a word
	if err != nil {
		t.Fatal(err)
	}
	defer hangsUp.Close()
	go func() {
		for {
			c, err := hangsUp.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for _, c := range []struct {
		name, url, address, remedy string
		category                   error
	}{
		{"nothing listens", "http://" + closed, closed, "connection refused", fault.ErrUnavailable},
		{"a certificate of an unknown authority", secure.URL, strings.TrimPrefix(secure.URL, "https://"), "--target-cacert", fault.ErrConfig},
		{"a connection that ends at once", "http://" + hangsUp.Addr().String(), hangsUp.Addr().String(), "https://", fault.ErrUnavailable},
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
			if n := strings.Count(err.Error(), c.address); n > 2 { // the client's and, of a refused connection, the kernel's
				t.Errorf("the address is there %d times: %v", n, err)
			}
		})
	}
}
