package api

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// certificateInterval is the interval between checks for changed certificates.
const certificateInterval = 4 * time.Second

// Open serves the API of a node, and reloads changed certificates, until stop is called.
func Open(conf Config, node Node) (stop func() error, err error) {
	log, id := conf.Log, conf.Identity
	server, err := New(conf, node)
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
			id.Watch(ctx, certificateInterval, func(err error) {
				if err != nil {
					log.Warn("changed certificates not usable, the previous ones stay in use", "error", err)
					return
				}
				log.Info("certificates reloaded")
			})
		})
	}
	return func() error {
		cancel()
		running.Wait()
		return errors.Join(served, removeSockets(conf.Socket, conf.StatusSocket))
	}, nil
}

// removeSockets removes sockets that listeners may have left.
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
