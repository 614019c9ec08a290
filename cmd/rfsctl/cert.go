package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

const certHelp = `A fleet has one certificate authority, created with the first certificate. Give every node ca.crt
and its own (or one shared) certificate and key of the role node; operators and readers get their
own. ca.key stays where certificates are created. Nothing is overwritten: create a new
certificate under another name, replace the files, and send SIGHUP to the daemon.

Roles: node (serves the API and talks to nodes), operator (reads, and gives orders such as
pause and scale), reader (reads).`

func certCommand() *cli.Command {
	return &cli.Command{
		Name: "cert", Usage: "create the certificates and keys of a fleet", Description: certHelp,
		Subcommands: []*cli.Command{
			config.Command(cli.Command{Name: "create", Usage: "create a certificate, and the fleet's certificate authority if it does not exist", ArgsUsage: "NAME", Description: certHelp}, createCert),
			config.Command(cli.Command{Name: "gossip-key", Usage: "add a key to a key file of gossip, as the last one", ArgsUsage: "FILE"}, gossipKey),
		},
	}
}

func createCert(_ context.Context, call *config.Call, o config.CreateCertificate) error {
	if len(call.Args) != 1 {
		return fmt.Errorf("rfsctl cert create takes the name of the certificate: %w", fault.ErrConfig)
	}
	dir, fleet, now := o.Certificate.Dir, o.Certificate.Fleet.Name, time.Now()
	made, err := cert.CreateAuthority(dir, fleet, now)
	if err != nil {
		return err
	}
	name := call.Args[0]
	err = cert.Create(dir, cert.Request{Fleet: fleet, Name: name, Role: cert.Role(o.Certificate.Role), Life: time.Duration(o.Certificate.Days) * 24 * time.Hour}, now)
	if err != nil {
		return err
	}
	is := createdCertificate{Fleet: fleet, Role: o.Certificate.Role, Certificate: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"), Authority: filepath.Join(dir, cert.CAFile), authorityMade: made}
	return report.Print(call.Out, is, exit.OK, nil)
}

// createdCertificate names the files of a new certificate.
type createdCertificate struct {
	Fleet         string `json:"fleet"`
	Role          string `json:"role"`
	Certificate   string `json:"certificate"`
	Key           string `json:"key"`
	Authority     string `json:"authority"`
	authorityMade bool
}

// WriteText prints the names of the files that were created.
func (c createdCertificate) WriteText(w io.Writer) {
	if c.authorityMade {
		fmt.Fprintf(w, "authority of the fleet %s: %s\n", c.Fleet, c.Authority)
	}
	fmt.Fprintf(w, "%s: %s, %s\n", c.Role, c.Certificate, c.Key)
}

// gossipKey appends a key: the file is then given to all nodes, and the key moved to the first line in
// a second step, so that every node can read what the others send at all times.
func gossipKey(_ context.Context, call *config.Call, _ config.Printed) error {
	if len(call.Args) != 1 {
		return fmt.Errorf("rfsctl cert gossip-key takes the name of the file: %w", fault.ErrConfig)
	}
	key, err := cert.GossipKey()
	if err != nil {
		return err
	}
	f, err := files.OpenFile(call.Args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	_, err = f.WriteString(key + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", call.Args[0], err)
	}
	return call.Out.Result(config.WrittenFile{File: call.Args[0]})
}
