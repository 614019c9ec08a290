// Package cert creates and reads the certificates of a fleet: one authority, and a certificate per node, operator and reader. The role is
// in the subject's organizational unit, the fleet's name in the certificate's DNS name, so that no certificate is tied to a machine's
// address.
package cert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// Role determines what the owner of a certificate may do.
type Role string

// The roles. A node may connect to nodes and read; an operator may read and give orders; a reader may read.
const (
	Node     Role = "node"
	Operator Role = "operator"
	Reader   Role = "reader"
)

// Roles lists all roles.
var Roles = []Role{Node, Operator, Reader}

// RoleOf returns the role of a verified certificate, or a fault.ErrRejected.
func RoleOf(c *x509.Certificate) (Role, error) {
	if c == nil || len(c.Subject.OrganizationalUnit) != 1 {
		return "", fmt.Errorf("the certificate names no role: %w", fault.ErrRejected)
	}
	role := Role(c.Subject.OrganizationalUnit[0])
	if !slices.Contains(Roles, role) {
		return "", fmt.Errorf("the certificate names the role %q, not node, operator or reader: %w", role, fault.ErrRejected)
	}
	return role, nil
}

var fleetName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$`)

// ServerName returns the DNS name in every node's certificate. Clients verify it instead of an address.
func ServerName(fleet string) (string, error) {
	if !fleetName.MatchString(fleet) {
		return "", fmt.Errorf("fleet name %q: a–z, 0–9 and - only, at most 42, neither first nor last a -: %w", fleet, fault.ErrConfig)
	}
	return fleet + domain, nil
}

// domain ends the DNS names of nodes.
const domain = ".rfsd.internal"

// Fleet returns the fleet of the node that has a certificate; "" for any other certificate.
func Fleet(c *x509.Certificate) string {
	for _, name := range c.DNSNames {
		if fleet, ok := strings.CutSuffix(name, domain); ok && fleetName.MatchString(fleet) {
			return fleet
		}
	}
	return ""
}

// Files of a fleet's authority in its directory, and validity of certificates.
const (
	CAFile    = "ca.crt"
	caKeyFile = "ca.key"
	caLife    = 10 * 365 * 24 * time.Hour
	backdate  = time.Hour // clocks differ: a machine whose clock is behind must accept new certificates
)

// CreateAuthority creates a fleet's authority in dir unless it exists, and reports whether it did. The key (0600) never needs to leave the
// machine where certificates are created.
func CreateAuthority(dir, fleet string, now time.Time) (created bool, err error) {
	if _, err := ServerName(fleet); err != nil {
		return false, err
	}
	if _, err := os.Stat(filepath.Join(dir, CAFile)); err == nil {
		return false, nil
	}
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("directory of certificates: %w: %w", err, fault.ErrConfig)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, fmt.Errorf("key of the authority: %w", err)
	}
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: "rfsd fleet " + fleet}, NotBefore: now.Add(-backdate), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return true, write(dir, CAFile, caKeyFile, c, c, key, key)
}

// Request describes a certificate to create.
type Request struct {
	Fleet, Name string // Name is also the name of the files
	Role        Role
	Life        time.Duration
}

// Create signs a certificate with the authority in dir and writes NAME.crt and NAME.key (0600). It overwrites no file.
func Create(dir string, r Request, now time.Time) error {
	server, err := ServerName(r.Fleet)
	if err != nil {
		return err
	}
	if !slices.Contains(Roles, r.Role) {
		return fmt.Errorf("role %q is not node, operator or reader: %w", r.Role, fault.ErrConfig)
	}
	if r.Name == "" || r.Name != filepath.Base(r.Name) || r.Name == "ca" || r.Life <= 0 {
		return fmt.Errorf("certificate name %q, life %v: %w", r.Name, r.Life, fault.ErrConfig)
	}
	parent, parentKey, err := authority(dir)
	if err != nil {
		return err
	}
	if want := "rfsd fleet " + r.Fleet; parent.Subject.CommonName != want {
		return fmt.Errorf("the authority in %s belongs to %q, not to %q: %w", dir, parent.Subject.CommonName, want, fault.ErrConfig)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("key of %s: %w", r.Name, err)
	}
	c := &x509.Certificate{
		Subject:   pkix.Name{CommonName: r.Name, OrganizationalUnit: []string{string(r.Role)}},
		NotBefore: now.Add(-backdate), NotAfter: minTime(now.Add(r.Life), parent.NotAfter),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	if r.Role == Node { // only nodes are servers
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		c.DNSNames = []string{server}
	}
	return write(dir, r.Name+".crt", r.Name+".key", c, parent, key, parentKey)
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func authority(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	fail := func(err error) (*x509.Certificate, *ecdsa.PrivateKey, error) {
		return nil, nil, fmt.Errorf("authority in %s: %w: %w", dir, err, fault.ErrConfig)
	}
	certBlock, err := readPEM(filepath.Join(dir, CAFile))
	if err != nil {
		return fail(err)
	}
	c, err := x509.ParseCertificate(certBlock)
	if err != nil {
		return fail(err)
	}
	keyBlock, err := readPEM(filepath.Join(dir, caKeyFile))
	if err != nil {
		return fail(err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock)
	if err != nil {
		return fail(err)
	}
	return c, key, nil
}

func readPEM(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", name)
	}
	return block.Bytes, nil
}

// write signs the certificate and writes both files, the key first: a certificate without its key is useless.
func write(dir, certName, keyName string, c, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("serial number: %w", err)
	}
	c.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		return fmt.Errorf("sign %s: %w", certName, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("key %s: %w", keyName, err)
	}
	if err := writeNew(filepath.Join(dir, keyName), "EC PRIVATE KEY", keyDER, 0o600); err != nil {
		return err
	}
	return writeNew(filepath.Join(dir, certName), "CERTIFICATE", der, 0o644)
}

func writeNew(name, kind string, der []byte, mode os.FileMode) error {
	f, err := files.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists and is not overwritten: %w", name, fault.ErrConfig)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	err = pem.Encode(f, &pem.Block{Type: kind, Bytes: der})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// GossipKey returns a key for the file of --gossip-keys: 32 random bytes in base64.
func GossipKey() (string, error) {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("gossip key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(b), nil
}
