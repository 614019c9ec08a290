package telemetry

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// client returns the HTTP client for a signal's collector. It follows no redirects, so that headers with credentials are sent only to the
// configured address; the exporters' own client does not guarantee that.
func client(env func(string) string, signal string) (*http.Client, error) {
	value := func(name string) string {
		if v := env("OTEL_EXPORTER_OTLP_" + signal + "_" + name); v != "" {
			return v
		}
		return env("OTEL_EXPORTER_OTLP_" + name)
	}
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if name := value("CERTIFICATE"); name != "" {
		pem, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w: %w", err, fault.ErrConfig)
		}
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate in PEM: %w", name, fault.ErrConfig)
		}
	}
	if name := value("CLIENT_CERTIFICATE"); name != "" {
		pair, err := tls.LoadX509KeyPair(name, value("CLIENT_KEY"))
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and CLIENT_KEY: %w: %w", err, fault.ErrConfig)
		}
		secured.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secured, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       exportTimeout,
	}, nil
}
