package cert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Files are the paths of the certificate, its key and the fleet's authority.
type Files struct{ Cert, Key, CA string }

// Complete reports whether all three are set.
func (f Files) Complete() bool { return f.Cert != "" && f.Key != "" && f.CA != "" }

// Identity is the certificate of a process and the authority that it trusts. Reload reads the files again.
type Identity struct {
	files  Files
	fleet  string
	loaded atomic.Pointer[loaded]
}

type loaded struct {
	generation uint64 // number of authorities loaded before this one

	own  tls.Certificate
	pool *x509.CertPool
	leaf *x509.Certificate
	seen stamps // of the files, before they were read
	ca   []byte // content of the authority's file
}

// Load reads the files. It returns fault.ErrConfig if any of them is invalid.
func Load(f Files, fleet string) (*Identity, error) {
	i := &Identity{files: f, fleet: fleet}
	if _, err := ServerName(fleet); err != nil {
		return nil, err
	}
	return i, i.Reload()
}

// Reload reads the files again. After an error the previous ones stay in use.
func (i *Identity) Reload() error {
	seen := i.files.stamp()
	own, err := tls.LoadX509KeyPair(i.files.Cert, i.files.Key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w: %w", i.files.Cert, i.files.Key, err, fault.ErrConfig)
	}
	b, err := os.ReadFile(i.files.CA)
	if err != nil {
		return fmt.Errorf("authority: %w: %w", err, fault.ErrConfig)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return fmt.Errorf("authority %s holds no certificate: %w", i.files.CA, fault.ErrConfig)
	}
	leaf, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		return fmt.Errorf("certificate %s: %w: %w", i.files.Cert, err, fault.ErrConfig)
	}
	if _, err := RoleOf(leaf); err != nil {
		return fmt.Errorf("certificate %s: %w: %w", i.files.Cert, err, fault.ErrConfig)
	}
	generation := uint64(0)
	if was := i.loaded.Load(); was != nil {
		if generation = was.generation; !bytes.Equal(was.ca, b) {
			generation++
		}
	}
	i.loaded.Store(&loaded{generation: generation, own: own, pool: pool, leaf: leaf, seen: seen, ca: b})
	return nil
}

// Generation returns a number that increases whenever another authority is loaded.
func (i *Identity) Generation() uint64 { return i.loaded.Load().generation }

// Expires returns the expiry of this process's certificate.
func (i *Identity) Expires() time.Time { return i.loaded.Load().leaf.NotAfter }

// Until returns the earliest expiry of the certificates in the verified chain of the other side of a connection.
func Until(s tls.ConnectionState) time.Time {
	var until time.Time
	if len(s.VerifiedChains) == 0 {
		return until
	}
	for _, c := range s.VerifiedChains[0] { // the chain used in the handshake
		if until.IsZero() || c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return until
}

// StillValid verifies the certificates of the other side of a connection with the current authority. It returns a fault.ErrRejected when
// the certificate has expired, or was issued by another authority.
func (i *Identity) StillValid(s tls.ConnectionState, now time.Time) error {
	if len(s.PeerCertificates) == 0 {
		return fmt.Errorf("no certificate: %w", fault.ErrRejected)
	}
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: i.loaded.Load().pool, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, // which all roles have
	})
	if err != nil {
		return fmt.Errorf("the certificate is not valid any more: %w: %w", err, fault.ErrRejected)
	}
	return nil
}

// Role returns the role of this process.
func (i *Identity) Role() Role {
	role, err := RoleOf(i.loaded.Load().leaf)
	if err != nil { // Reload has checked it
		return ""
	}
	return role
}

// Server returns a TLS 1.3 configuration that requires a client certificate of the fleet's authority.
func (i *Identity) Server(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := i.loaded.Load()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, NextProtos: protocols, Certificates: []tls.Certificate{now.own},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: now.pool,
				SessionTicketsDisabled: true, // a ticket must not outlive a revoked authority
			}, nil
		},
	}
}

// Client returns a TLS 1.3 configuration that presents this process's certificate and trusts only nodes of the fleet.
func (i *Identity) Client(protocols ...string) (*tls.Config, error) {
	name, err := ServerName(i.fleet)
	if err != nil {
		return nil, err
	}
	now := i.loaded.Load()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protocols, Certificates: []tls.Certificate{now.own}, RootCAs: now.pool, ServerName: name,
		VerifyConnection: func(s tls.ConnectionState) error {
			role, err := RoleOf(s.PeerCertificates[0])
			if err != nil {
				return err
			}
			if role != Node {
				return fmt.Errorf("the other side is a %s, not a node: %w", role, fault.ErrRejected)
			}
			return nil
		},
	}, nil
}
