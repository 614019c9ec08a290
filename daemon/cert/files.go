package cert

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/rfsd/rfsd/rfs/fault"
)

// Files are the certificate, its key and the fleet's authority.
type Files struct{ Cert, Key, CA string }

// Complete says whether all three are named.
func (f Files) Complete() bool { return f.Cert != "" && f.Key != "" && f.CA != "" }

// Identity is what a process shows and whom it believes; Reload takes the files' new content.
type Identity struct {
	files  Files
	fleet  string
	loaded atomic.Pointer[loaded]
}

type loaded struct {
	own  tls.Certificate
	pool *x509.CertPool
	leaf *x509.Certificate
	seen stamps // of the files, before they were read
}

// Load reads the files. fault.ErrConfig names what is wrong with them.
func Load(f Files, fleet string) (*Identity, error) {
	i := &Identity{files: f, fleet: fleet}
	if _, err := ServerName(fleet); err != nil {
		return nil, err
	}
	return i, i.Reload()
}

// Reload reads the files again; on an error what was loaded before stays.
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
	i.loaded.Store(&loaded{own: own, pool: pool, leaf: leaf, seen: seen})
	return nil
}

// Role is this process's own.
func (i *Identity) Role() Role {
	role, err := RoleOf(i.loaded.Load().leaf)
	if err != nil { // Reload has checked it
		return ""
	}
	return role
}

// Server asks every client for a certificate of the fleet's authority, with TLS 1.3 only.
func (i *Identity) Server(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := i.loaded.Load()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, NextProtos: protocols, Certificates: []tls.Certificate{now.own},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: now.pool,
				SessionTicketsDisabled: true, // a certificate that was taken away must not come back by a ticket
			}, nil
		},
	}
}

// Client shows this process's certificate and believes nodes of the fleet only.
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
