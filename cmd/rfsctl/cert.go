package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/rfs/fault"
)

const certHelp = `A fleet has one authority; it is made with the first certificate. Give every node ca.crt and its own (or one shared)
   certificate and key of the role node; operators and readers get theirs. ca.key stays where certificates are made. Nothing is
   overwritten: make a new one under another name, replace the files, and send SIGHUP to the daemon.

   Roles: node (answers, and talks to nodes), operator (reads and steers), reader (reads).`

func certCommand() *cli.Command {
	return &cli.Command{
		Name: "cert", Usage: "make the certificates and keys of a fleet", Description: certHelp,
		Subcommands: []*cli.Command{
			{Name: "create", Usage: "make a certificate, and the fleet's authority when there is none", ArgsUsage: "NAME", Description: certHelp, Action: createCert, Flags: []cli.Flag{
				&cli.StringFlag{Name: "dir", Value: "rfsd-certs", Usage: "directory of the certificates"},
				&cli.StringFlag{Name: "fleet", Value: "rfsd", Usage: "name of the fleet: a–z, 0–9 and -", EnvVars: env("fleet")},
				&cli.StringFlag{Name: "role", Value: string(cert.Node), Usage: "node, operator or reader"},
				&cli.IntFlag{Name: "days", Value: 365, Usage: "days for which it is valid"},
			}},
			{Name: "gossip-key", Usage: "add a key to a key file of gossip, as the last one", ArgsUsage: "FILE", Action: gossipKey},
		},
	}
}

func createCert(c *cli.Context) error {
	if c.NArg() != 1 {
		return fmt.Errorf("rfsctl cert create takes the name of the certificate: %w", fault.ErrConfig)
	}
	dir, fleet, now := c.String("dir"), c.String("fleet"), time.Now()
	made, err := cert.CreateAuthority(dir, fleet, now)
	if err != nil {
		return err
	}
	if made {
		fmt.Fprintf(c.App.Writer, "authority of the fleet %s: %s\n", fleet, filepath.Join(dir, cert.CAFile))
	}
	days := c.Int("days")
	if days < 1 || days > 3650 {
		return fmt.Errorf("--days %d is not between 1 and 3650: %w", days, fault.ErrConfig)
	}
	name := c.Args().First()
	err = cert.Create(dir, cert.Request{Fleet: fleet, Name: name, Role: cert.Role(c.String("role")), Life: time.Duration(days) * 24 * time.Hour}, now)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%s: %s, %s\n", c.String("role"), filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	return nil
}

// gossipKey appends a key: the file is then given to all nodes, and the key moved to the first line in
// a second step, so that every node can read what the others send at all times.
func gossipKey(c *cli.Context) error {
	if c.NArg() != 1 {
		return fmt.Errorf("rfsctl cert gossip-key takes the name of the file: %w", fault.ErrConfig)
	}
	key, err := cert.GossipKey()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(c.Args().First(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	_, err = f.WriteString(key + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", c.Args().First(), err)
	}
	return nil
}
