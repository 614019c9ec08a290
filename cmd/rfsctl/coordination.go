package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/cms/oscms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/target"
)

// coordinationFlags say where the state of a migration is kept: the same flags as of rfsd.
func coordinationFlags(more ...cli.Flag) []cli.Flag {
	flags := append(clusterFlags("target", "URL of the target cluster, which keeps the state of the work by default"),
		clusterFlags("coordinator", "URL of the OpenSearch that keeps the state of the work, when it is not the target")...)
	flags = append(flags,
		&cli.StringFlag{Name: "coordinator-file", Usage: "file that keeps the state of the work (of an export: DIR/.rfsd/coordinator.db)", EnvVars: env("coordinator-file")},
		&cli.StringFlag{Name: "session-name", Usage: "name of the migration, as it was given to rfsd", EnvVars: env("session-name")},
		&cli.StringFlag{Name: "output", Usage: "table or json", Value: "table", EnvVars: env("output")},
	)
	return append(flags, more...)
}

// clusterFlags are the flags of one cluster: target or coordinator.
func clusterFlags(which, host string) []cli.Flag {
	str := func(name, usage string) cli.Flag {
		return &cli.StringFlag{Name: which + name, Usage: usage, EnvVars: env(which + name)}
	}
	return []cli.Flag{
		str("-host", host),
		str("-username", "user for basic authentication"),
		str("-password-file", "file holding the password (or set "+env(which + "-password")[0]+")"),
		str("-password", "password; visible to other users of this machine, prefer the file or the variable"),
		&cli.BoolFlag{Name: which + "-insecure", Usage: "do not verify the certificate", EnvVars: env(which + "-insecure")},
		str("-cacert", "PEM file of the authority that signed the certificate"),
		str("-client-cert", "PEM file of a client certificate"),
		str("-client-cert-key", "PEM file of the client certificate's key"),
		&cli.BoolFlag{Name: which + "-aws-sigv4", Usage: "sign requests with AWS Signature Version 4", EnvVars: env(which + "-aws-sigv4")},
		str("-aws-region", "region of the domain (default: from its host name, else AWS_REGION)"),
		str("-aws-service", "AWS service of the signature: es, that of domains (the default); serverless collections are not supported"),
		str("-aws-role-arn", "role to assume for the requests"),
	}
}

// coordination is the opened state of one migration.
type coordination struct {
	*cms.Coordinator
	store  cms.Store
	place  string         // where it is kept, for messages
	client *target.Client // nil for a file
	close  func() error
}

var sessionName = regexp.MustCompile(`^[a-z0-9-]{0,64}$`)

// openCoordination opens the state of a migration that has begun; it never begins one.
func openCoordination(c *cli.Context) (*coordination, error) {
	if o := c.String("output"); o != "table" && o != "json" {
		return nil, fmt.Errorf("--output %q is not table or json: %w", o, fault.ErrConfig)
	}
	if s := c.String("session-name"); !sessionName.MatchString(s) {
		return nil, fmt.Errorf("--session-name %q: only a–z, 0–9 and -, at most 64: %w", s, fault.ErrConfig)
	}
	file, which := c.String("coordinator-file"), "coordinator"
	if c.String("coordinator-host") == "" {
		which = "target"
	}
	var s *coordination
	var err error
	switch host := c.String(which + "-host"); {
	case file != "" && c.String("coordinator-host") != "":
		err = fmt.Errorf("--coordinator-host and --coordinator-file exclude each other: %w", fault.ErrConfig)
	case file != "":
		s, err = openFile(file)
	case host != "":
		s, err = openCluster(c, which)
	default:
		err = fmt.Errorf("say where the state of the work is: --target-host, --coordinator-host or --coordinator-file: %w", fault.ErrConfig)
	}
	if err != nil {
		return nil, err
	}
	if s.Coordinator, err = cms.New(cms.Config{Store: s.store, Creator: "rfsctl"}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func openFile(path string) (*coordination, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("coordinator file %s does not exist: %w", path, fault.ErrConfig)
	}
	store, err := boltcms.Open(path, time.Now)
	if err != nil {
		return nil, err
	}
	return &coordination{store: store, place: path, close: store.Close}, nil
}

// connect makes the client of one cluster, of which nothing is asked yet.
func connect(c *cli.Context, which string) (*target.Client, error) {
	password, err := password(c, which)
	if err != nil {
		return nil, err
	}
	var sign *target.SigV4
	if c.Bool(which + "-aws-sigv4") {
		sign = &target.SigV4{Region: c.String(which + "-aws-region"), Service: c.String(which + "-aws-service"), RoleARN: c.String(which + "-aws-role-arn")}
	}
	conf := target.Config{
		SigV4: sign,
		URL:   c.String(which + "-host"), Username: c.String(which + "-username"), Password: password,
		Insecure: c.Bool(which + "-insecure"), CACert: c.String(which + "-cacert"),
		ClientCert: c.String(which + "-client-cert"), ClientKey: c.String(which + "-client-cert-key"),
		UserAgent: "rfsctl/" + version,
	}
	named := conf
	named.Role = which
	for _, risk := range named.Risks() {
		fmt.Fprintln(c.App.ErrWriter, "rfsctl: warning:", risk)
	}
	return target.New(c.Context, conf)
}

func openCluster(c *cli.Context, which string) (*coordination, error) {
	client, err := connect(c, which)
	if err != nil {
		return nil, err
	}
	session := c.String("session-name")
	if err := hasSession(c.Context, client, session); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	store, err := oscms.Open(c.Context, oscms.Config{Client: client, Session: session})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("coordination in %s: %w", client.Name(), err), client.Close())
	}
	return &coordination{store: store, place: client.Name(), client: client, close: client.Close}, nil
}

// password takes it from the file, or from the flag or its variable.
func password(c *cli.Context, which string) (string, error) {
	name := c.String(which + "-password-file")
	if name == "" {
		return c.String(which + "-password"), nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("--%s-password-file: %w: %w", which, err, fault.ErrConfig)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// hasSession refuses a session that nobody began: opening its store would make its indices.
func hasSession(ctx context.Context, client *target.Client, session string) error {
	index := ".rfs_control"
	if session != "" {
		index += "_" + session
	}
	status, _, err := client.Do(ctx, http.MethodHead, "/"+index, nil, nil)
	switch {
	case err != nil:
		return fmt.Errorf("coordination in %s: %w", client.Name(), err)
	case status == http.StatusNotFound:
		return fmt.Errorf("%s holds no migration of the session %q (index %s does not exist): %w", client.Name(), session, index, fault.ErrConfig)
	case status >= 300:
		return fmt.Errorf("coordination in %s: HEAD %s: status %d: %w", client.Name(), index, status, fault.ErrUnavailable)
	}
	return nil
}
