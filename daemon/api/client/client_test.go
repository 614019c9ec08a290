package client

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// idle is a node that has nothing to report.
type idle struct{ api.Node }

func (idle) Status(context.Context) status.Report { return status.Report{} }

// serve starts the API of a node on a port of loopback.
func serve(t *testing.T, conf api.Config) string {
	t.Helper()
	conf.Listen, conf.Page, conf.Log = "127.0.0.1:0", http.NotFoundHandler(), slog.New(slog.DiscardHandler)
	s, err := api.New(conf, idle{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s.Addr()
}

// authority creates a fleet and returns a function that loads its certificates.
func authority(t *testing.T, fleet string) func(name, as string) *cert.Identity {
	t.Helper()
	dir := t.TempDir()
	begin := time.Now()
	if _, err := cert.CreateAuthority(dir, fleet, begin); err != nil {
		t.Fatal(err)
	}
	for _, role := range cert.Roles {
		if err := cert.Create(dir, cert.Request{Fleet: fleet, Name: string(role), Role: role, Life: 24 * time.Hour}, begin); err != nil {
			t.Fatal(err)
		}
	}
	return func(name, as string) *cert.Identity {
		id, err := cert.Load(cert.Files{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"), CA: filepath.Join(dir, cert.CAFile)}, as)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
}

func TestNew_NamesOfNodes(t *testing.T) {
	for _, c := range []struct {
		node string
		want error
	}{
		{"127.0.0.1:7400", nil}, {"localhost:7400", nil}, {"[::1]:7400", nil}, {"/run/rfsd/operator.sock", nil}, {"unix:///run/rfsd/operator.sock", nil}, {"./s.sock", nil},
		{"http://127.0.0.1:7400", fault.ErrConfig}, {"https://node1:7400/", fault.ErrConfig}, {"node1", fault.ErrConfig}, {"", fault.ErrConfig},
	} {
		if _, err := New(Options{Nodes: []string{c.node}}); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%q: %v", c.node, err)
		}
	}
}

// TestAWrongWayToAskStatesTheRightOne: a failed connection with a known cause is not reported as an unreachable node.
func TestAWrongWayToAskStatesTheRightOne(t *testing.T) {
	blue, other := authority(t, "blue"), authority(t, "blue")
	secured, open := serve(t, api.Config{Identity: blue("node", "blue")}), serve(t, api.Config{})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nothing := closed.Addr().String()
	closed.Close()
	for _, c := range []struct {
		name string
		node string
		id   *cert.Identity
		want string // of the error; "" none
		kind error
		sees *cert.Identity // whose authority the client believes; nil: that of id
	}{
		{"with the right certificate", secured, blue("operator", "blue"), "", nil, nil},
		{"open, without", open, nil, "", nil, nil},
		{"no certificate", secured, nil, "--tls-cert, --tls-key, --tls-ca and --fleet", fault.ErrConfig, nil},
		{"another fleet's name", secured, blue("operator", "green"), "give --fleet blue", fault.ErrConfig, nil},
		{"another authority", secured, other("operator", "blue"), "--tls-ca", fault.ErrConfig, nil},
		{"a certificate that the node does not take", secured, other("operator", "blue"), "rejects the certificate in --tls-cert", fault.ErrConfig, blue("operator", "blue")},
		{"a certificate for an open port", open, blue("operator", "blue"), "leave out --tls-cert", fault.ErrConfig, nil},
		{"nothing there", nothing, nil, "does not answer", fault.ErrUnavailable, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			asking, err := New(Options{Nodes: []string{c.node}, Identity: c.id})
			if err != nil {
				t.Fatal(err)
			}
			if c.sees != nil {
				right, err := c.sees.Client()
				if err != nil {
					t.Fatal(err)
				}
				asking.nodes[0].http.Transport.(*http.Transport).TLSClientConfig.RootCAs = right.RootCAs
			}
			var r status.Report
			_, err = asking.Get(t.Context(), "/v1/status", nil, &r)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.node) {
				t.Errorf("%v", err)
			}
		})
	}
}
