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

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/web"
)

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

// certificateLook is how often changed certificates are looked for.
const certificateLook = 4 * time.Second

// openAPI opens a node to operators; stop closes it and waits. streams take Raft's connections; nil: none.
func openAPI(o config.API, d *daemon.Daemon, id *cert.Identity, streams *api.Streams, log *slog.Logger) (stop func() error, err error) {
	operators, readers := socketPath(o.Socket, "operator.sock"), socketPath(o.StatusSocket, "status.sock")
	server, err := api.New(api.Config{
		Socket: operators, StatusSocket: readers, Listen: o.Listen, Identity: id, Hosts: o.Hosts, Page: web.Handler(), Raft: streams, Refused: d.ConnectionRefused, Log: log,
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
		return errors.Join(served, removeSockets(operators, readers))
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
