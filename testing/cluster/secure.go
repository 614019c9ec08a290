package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
)

// Credentials of the only user of a secured node. The password protects a test server on loopback.
const (
	securedUser     = "admin"
	securedPassword = "Lab-passw0rd!"
	// securedHash is the bcrypt hash of securedPassword.
	securedHash = "$2a$10$fqDOQGFjRV1BBJqeDbyvbuq5Ub6mrk6THConIwhJKpMIza8u9yV3u"
)

// securedDist returns the distribution with the security plugin.
func securedDist(ctx context.Context, version, plain string) (string, error) {
	if major(version) > 2 {
		return "", fmt.Errorf("no security plugin of %s is published as an artifact: %w", version, ErrMissing)
	}
	return assembled("opensearch-"+version+"-secured", func(dir string) error {
		work, err := os.MkdirTemp("", "rfsd-fetch-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work) //nolint:errcheck // only temporary files
		plugin := coordinate("org.opensearch.plugin:opensearch-security:" + version + ".0:zip")
		if err := fetch(ctx, work, map[string][]coordinate{"security": {plugin}}); err != nil {
			return err
		}
		if err := os.CopyFS(dir, os.DirFS(plain)); err != nil {
			return err
		}
		return unzip(filepath.Join(work, "security", "jars", "opensearch-security-"+version+".0.zip"),
			filepath.Join(dir, "plugins", "opensearch-security"), 0, nil)
	})
}

// secure writes certificates, the user and the plugin's configuration, and returns the settings of the node.
func secure(n *Node, dist string) ([]string, error) {
	conf := filepath.Join(n.Dir, "config")
	sub, err := fs.Sub(os.DirFS(dist), "plugins/opensearch-security/config")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(filepath.Join(conf, "opensearch-security"), sub); err != nil {
		return nil, err
	}
	users := "_meta:\n  type: \"internalusers\"\n  config_version: 2\n" + securedUser + ":\n  hash: \"" + securedHash +
		"\"\n  reserved: true\n  backend_roles: [\"admin\"]\n"
	if err := os.WriteFile(filepath.Join(conf, "opensearch-security", "internal_users.yml"), []byte(users), 0o644); err != nil {
		return nil, err
	}
	if err := acceptTokens(filepath.Join(conf, "opensearch-security", "config.yml")); err != nil {
		return nil, err
	}
	certs := filepath.Join(conf, "certs")
	if err := writeCertificates(certs); err != nil {
		return nil, err
	}
	n.URL = "https" + n.URL[len("http"):]
	n.Username, n.Password = securedUser, securedPassword
	n.CACert, n.AdminCert, n.AdminKey = filepath.Join(certs, "ca.pem"), filepath.Join(certs, "admin.pem"), filepath.Join(certs, "admin.key")
	var settings []string
	for _, layer := range []string{"transport", "http"} {
		p := "plugins.security.ssl." + layer + "."
		settings = append(settings, p+"pemcert_filepath: certs/node.pem", p+"pemkey_filepath: certs/node.key", p+"pemtrustedcas_filepath: certs/ca.pem")
	}
	return append(settings,
		"plugins.security.ssl.http.enabled: true",
		"plugins.security.ssl.http.clientauth_mode: OPTIONAL",
		"plugins.security.ssl.transport.enforce_hostname_verification: false",
		"plugins.security.allow_default_init_securityindex: true",
		`plugins.security.authcz.admin_dn: ["CN=admin,O=rfsd"]`,
		`plugins.security.nodes_dn: ["CN=node,O=rfsd"]`,
		"plugins.security.restapi.roles_enabled: [all_access, security_rest_api_access]",
	), nil
}

// TokenKey is the HMAC key of the bearer tokens (JWT) that secured nodes accept: their subject is the user, "roles" are backend roles.
var TokenKey = []byte("a key of a laboratory that guards nothing: 0123456789abcdef0123456789abcdef")

// acceptTokens enables bearer tokens in the plugin's configuration.
func acceptTokens(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var conf struct {
		Meta   map[string]any `yaml:"_meta"`
		Config struct {
			Dynamic map[string]any `yaml:"dynamic"`
		} `yaml:"config"`
	}
	if err := yaml.Unmarshal(b, &conf); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	domains, _ := conf.Config.Dynamic["authc"].(map[string]any)
	if domains == nil {
		return fmt.Errorf("%s has no authentication domains", path)
	}
	domains["jwt_auth_domain"] = map[string]any{
		"http_enabled": true, "transport_enabled": false, "order": 0, "authentication_backend": map[string]any{"type": "noop"},
		"http_authenticator": map[string]any{"type": "jwt", "challenge": false, "config": map[string]any{
			"signing_key": base64.StdEncoding.EncodeToString(TokenKey), "jwt_header": "Authorization", "roles_key": "roles",
		}},
	}
	if b, err = yaml.Marshal(conf); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// writeCertificates creates a certificate authority and certificates for the node and the admin client.
func writeCertificates(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := certificate("authority", 1)
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	if err := issue(dir, "ca", ca, ca, caKey, caKey); err != nil {
		return err
	}
	for i, name := range []string{"node", "admin"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		c := certificate(name, int64(i+2))
		c.KeyUsage = x509.KeyUsageDigitalSignature
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		c.IPAddresses, c.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
		if err := issue(dir, name, c, ca, key, caKey); err != nil {
			return err
		}
	}
	return nil
}

func certificate(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name, Organization: []string{"rfsd"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
	}
}

// issue signs a certificate and writes it and its key.
func issue(dir, name string, c, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(dir, name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}
