package cert_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, dir, fleet, name string, role cert.Role) {
	t.Helper()
	_, err := cert.CreateAuthority(dir, fleet, time.Now())
	must(t, err)
	must(t, cert.Create(dir, cert.Request{Fleet: fleet, Name: name, Role: role, Life: time.Hour}, time.Now()))
}

func files(dir, name string) cert.Files {
	return cert.Files{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"), CA: filepath.Join(dir, cert.CAFile)}
}

func TestKeysAreTheirOwnersAndNothingIsOverwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	create(t, dir, "blue", "a", cert.Node)
	for name, mode := range map[string]os.FileMode{"a.key": 0o600, "ca.key": 0o600, "a.crt": 0o644, "ca.crt": 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode().Perm() != mode {
			t.Errorf("%s: %v", name, info.Mode())
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, "a.key"))
	must(t, err)
	if err := cert.Create(dir, cert.Request{Fleet: "blue", Name: "a", Role: cert.Node, Life: time.Hour}, time.Now()); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("again: %v", err)
	}
	after, err := os.ReadFile(filepath.Join(dir, "a.key"))
	must(t, err)
	if string(before) != string(after) {
		t.Error("the key was overwritten")
	}
	made, err := cert.CreateAuthority(dir, "blue", time.Now())
	if err != nil || made {
		t.Errorf("a second authority: %v %v", made, err)
	}
}

func TestWhatMeansNothingIsNotSigned(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, "blue", "a", cert.Node)
	for what, r := range map[string]cert.Request{
		"another fleet":     {Fleet: "red", Name: "b", Role: cert.Node, Life: time.Hour},
		"no role":           {Fleet: "blue", Name: "b", Life: time.Hour},
		"an unknown role":   {Fleet: "blue", Name: "b", Role: "root", Life: time.Hour},
		"another directory": {Fleet: "blue", Name: "../b", Role: cert.Node, Life: time.Hour},
		"the authority":     {Fleet: "blue", Name: "ca", Role: cert.Node, Life: time.Hour},
		"no life":           {Fleet: "blue", Name: "b", Role: cert.Node},
		"a bad fleet":       {Fleet: "Blue.", Name: "b", Role: cert.Node, Life: time.Hour},
	} {
		if err := cert.Create(dir, r, time.Now()); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestARoleIsExactlyOneKnownUnit(t *testing.T) {
	for _, units := range [][]string{nil, {"root"}, {"reader", "operator"}, {"Operator"}, {""}} {
		if role, err := cert.RoleOf(&x509.Certificate{Subject: pkix.Name{OrganizationalUnit: units}}); !errors.Is(err, fault.ErrRejected) {
			t.Errorf("%q is the role %q, %v", units, role, err)
		}
	}
	if _, err := cert.RoleOf(nil); !errors.Is(err, fault.ErrRejected) {
		t.Errorf("no certificate: %v", err)
	}
	if role, err := cert.RoleOf(&x509.Certificate{Subject: pkix.Name{OrganizationalUnit: []string{"reader"}}}); role != cert.Reader || err != nil {
		t.Errorf("%q, %v", role, err)
	}
}

// shake connects a client to a server, each with its identity, and returns the errors of both sides.
func shake(t *testing.T, server, client *cert.Identity) (atServer, atClient error) {
	t.Helper()
	conf, err := client.Client()
	must(t, err)
	a, b := net.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		s := tls.Server(a, server.Server())
		err := s.HandshakeContext(ctx)
		if err == nil { // a client of TLS 1.3 hears with its first record whether it was believed
			_, err = s.Write([]byte("x"))
		}
		a.Close()
		done <- err
	}()
	c := tls.Client(b, conf)
	if atClient = c.HandshakeContext(ctx); atClient == nil {
		_, atClient = c.Read(make([]byte, 1))
	}
	b.Close()
	return <-done, atClient
}

func load(t *testing.T, dir, name, fleet string) *cert.Identity {
	t.Helper()
	id, err := cert.Load(files(dir, name), fleet)
	must(t, err)
	return id
}

func TestOnlyANodeOfTheFleetIsBelievedAsAServer(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, "blue", "node", cert.Node)
	create(t, dir, "blue", "operator", cert.Operator)
	node, operator := load(t, dir, "node", "blue"), load(t, dir, "operator", "blue")
	if s, c := shake(t, node, operator); s != nil || c != nil {
		t.Errorf("operator to node: %v, %v", s, c)
	}
	if _, c := shake(t, operator, node); c == nil {
		t.Error("an operator passes as a node")
	}
	if _, c := shake(t, node, load(t, dir, "operator", "green")); c == nil {
		t.Error("a node of another fleet is believed")
	}
}

func TestChangedFilesAreSeenAndBadOnesLeftAlone(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	create(t, dir, "blue", "node", cert.Node)
	create(t, other, "blue", "node", cert.Node)
	create(t, other, "blue", "client", cert.Reader)
	id := load(t, dir, "node", "blue")
	client := load(t, other, "client", "blue")
	if s, _ := shake(t, id, client); s == nil {
		t.Fatal("a client of another authority is believed")
	}
	told := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		id.Watch(ctx, time.Millisecond, func(err error) {
			select {
			case told <- err:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { cancel(); <-ended }()
	replace := func(name string, content []byte) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, "new"), content, 0o600))
		must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name)))
	}
	replace("node.key", []byte("no key"))
	if err := <-told; !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a broken key: %v", err)
	}
	if id.Role() != cert.Node {
		t.Error("what was in use is not in use any more")
	}
	for _, name := range []string{"ca.crt", "node.crt", "node.key"} {
		b, err := os.ReadFile(filepath.Join(other, name))
		must(t, err)
		replace(name, b)
	}
	for err := range told { // the pair fits when all three are there
		if err == nil {
			break
		}
	}
	if s, c := shake(t, id, client); s != nil || c != nil {
		t.Errorf("with the new files: %v, %v", s, c)
	}
}
