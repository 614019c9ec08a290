package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/web"
)

const apiCategory = "The API"

// apiFlags say how a node is asked and steered.
func apiFlags() []cli.Flag {
	return []cli.Flag{
		str(apiCategory, "socket", "auto", "Unix socket of operators (mode 0660, group rfsd-operators where there is one); off: none; auto: operator.sock in the service's RUNTIME_DIRECTORY, else none"),
		str(apiCategory, "status-socket", "auto", "Unix socket that tells everybody on this machine and takes no orders, likewise (auto: status.sock)"),
		str(apiCategory, "listen", "", "HOST:PORT of the API; beyond loopback only with --tls-cert, --tls-key and --tls-ca; on loopback without them everybody may read"),
		str(apiCategory, "advertise", "", "HOST:PORT by which other nodes reach the API (default: that of --listen)"),
		str(apiCategory, "tls-cert", "", "PEM file of this node's certificate (rfsctl cert create)"),
		str(apiCategory, "tls-key", "", "PEM file of its key"),
		str(apiCategory, "tls-ca", "", "PEM file of the fleet's authority"),
		str(apiCategory, "fleet", "rfsd", "name of the fleet in its certificates"),
		list(apiCategory, "allowed-hosts", "further HOST:PORT by which browsers and clients reach the API; may be repeated"),
	}
}

// apiOptions are those flags, checked.
type apiOptions struct {
	socket, statusSocket, listen string
	advertise                    string // where others reach it
	files                        cert.Files
	fleet                        string
	hosts                        []string
}

func parseAPI(c *cli.Context) (apiOptions, error) {
	o := apiOptions{
		socket: socketPath(c.String("socket"), "operator.sock"), statusSocket: socketPath(c.String("status-socket"), "status.sock"),
		listen: c.String("listen"), advertise: c.String("advertise"), fleet: c.String("fleet"), hosts: c.StringSlice("allowed-hosts"),
		files: cert.Files{Cert: c.String("tls-cert"), Key: c.String("tls-key"), CA: c.String("tls-ca")},
	}
	if o.advertise == "" {
		o.advertise = o.listen
	}
	if o.files != (cert.Files{}) && !o.files.Complete() {
		var missing []string
		for _, x := range [][2]string{{"--tls-cert", o.files.Cert}, {"--tls-key", o.files.Key}, {"--tls-ca", o.files.CA}} {
			if x[1] == "" {
				missing = append(missing, x[0])
			}
		}
		return o, usage("certificates are named in part: %s is missing", strings.Join(missing, " and "))
	}
	if o.files.Complete() && o.listen == "" {
		return o, usage("certificates are named, but no --listen HOST:PORT to use them on")
	}
	return o, nil
}

// socketPath resolves auto and off.
func socketPath(given, name string) string {
	switch given {
	case "off", "":
		return ""
	case "auto":
		// The service manager makes the directory, and may name several.
		dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
		if dir == "" {
			return ""
		}
		return filepath.Join(dir, name)
	}
	return given
}

// identity loads the certificates; nil without.
func (o apiOptions) identity() (*cert.Identity, error) {
	if !o.files.Complete() {
		return nil, nil
	}
	return cert.Load(o.files, o.fleet)
}

// certificateLook is how often changed certificates are looked for.
const certificateLook = 4 * time.Second

// open opens a node to operators; stop closes it and waits. streams take Raft's connections; nil: none.
func (o apiOptions) open(d *daemon.Daemon, id *cert.Identity, streams *api.Streams, log *slog.Logger) (stop func() error, err error) {
	server, err := api.New(api.Config{
		Socket: o.socket, StatusSocket: o.statusSocket, Listen: o.listen, Identity: id, Hosts: o.hosts, Page: web.Handler(), Raft: streams, Refused: d.ConnectionRefused, Log: log,
	}, d)
	if err != nil {
		return nil, err
	}
	if a := server.Addr(); a != "" {
		log.Info("the API listens", "address", a, "certificates", id != nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var served error
	running.Go(func() {
		if served = server.Serve(ctx); served != nil {
			log.Error("the API ended", "error", served)
		}
	})
	if id != nil {
		running.Go(func() {
			id.Watch(ctx, certificateLook, func(err error) {
				if err != nil {
					log.Warn("changed certificates are not usable; the ones before stay in use", "error", err)
					return
				}
				log.Info("certificates were loaded again")
			})
		})
	}
	return func() error {
		cancel()
		running.Wait()
		return errors.Join(served, removeSockets(o.socket, o.statusSocket))
	}, nil
}

// removeSockets removes what listeners may have left.
func removeSockets(paths ...string) error {
	var errs []error
	for _, p := range paths {
		if p == "" {
			continue
		}
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
