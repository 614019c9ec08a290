package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/api/client"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
)

// openNodes returns the client of the nodes that are named, or of what runs on this machine.
func openNodes(from config.Nodes) (*client.Client, error) {
	id, err := from.TLS.Identity()
	if err != nil {
		return nil, err
	}
	o := client.Options{Nodes: from.Nodes, Identity: id}
	if len(o.Nodes) == 0 {
		if o.Nodes, err = found(); err != nil {
			return nil, err
		}
	}
	return client.New(o)
}

// found returns the sockets of the node on this machine, or of the one command of this user that runs.
func found() ([]string, error) {
	if all := localSockets(); len(all) > 0 {
		return all, nil
	}
	own := api.OwnSockets(os.Getenv)
	switch len(own) {
	case 0:
		return nil, fmt.Errorf("no node runs on this machine (%s does not exist, or is not yours), and no rfsd of this user in the foreground; --node HOST:PORT asks another node; status, report, items and failures also read the state of the work where it is kept (--target-host): %w", operatorSocket, fault.ErrConfig)
	case 1:
		return own, nil
	}
	names := make([]string, len(own))
	for i, path := range own {
		names[i] = "--node " + path
		if session, err := client.Session(context.Background(), path); err == nil {
			names[i] += " (session " + orDash(terminal.Clean(session)) + ")"
		}
	}
	return nil, fmt.Errorf("%d commands of rfsd run: choose by --session-name, or by %s: %w", len(own), strings.Join(names, ", "), fault.ErrConfig)
}

// socketsOf returns the sockets of the processes on this machine that work on a session: the node's, and the sockets of this user's
// commands. Without any it returns a fault.ErrConfig that names the running sessions.
func socketsOf(session string) ([]string, error) {
	var of, others []string
	for _, path := range append(localSockets(), api.OwnSockets(os.Getenv)...) {
		switch is, err := client.Session(context.Background(), path); {
		case err != nil:
			others = append(others, path+" ("+terminal.Clean(fault.Text(err))+")")
		case is == session:
			of = append(of, path)
		default:
			others = append(others, path+" (session "+orDash(terminal.Clean(is))+")")
		}
	}
	if len(of) > 0 {
		return of, nil
	}
	running := "no rfsd of this user runs here"
	if len(others) > 0 {
		running = "here run " + strings.Join(others, ", ")
	}
	return nil, fmt.Errorf("no process on this machine works on the session %s: %s; --node asks another node, --target-host, --coordinator-host, --coordinator-bucket or --coordinator-file reads the state of a session: %w", session, running, fault.ErrConfig)
}

// ownerOf returns the socket of the command that has a coordinator file open; "" for none.
func ownerOf(file string) string {
	pid := boltcms.Owner(file)
	if pid == 0 {
		return ""
	}
	own := api.OwnSockets(os.Getenv)
	if i := slices.IndexFunc(own, func(path string) bool { return api.ProcessOf(path) == pid }); i >= 0 {
		return own[i]
	}
	return ""
}

// localSockets returns the sockets of nodes that this user may open.
func localSockets() (all []string) {
	for _, path := range []string{operatorSocket, statusSocket} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		// A socket cannot be opened as a file; what matters is why.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			all = append(all, path)
		}
	}
	return all
}

// throughNode reports whether a running process is asked, and which: one is named, it has the named file open, it works on the named
// session, or nothing is named and one runs here. A fault.ErrConfig when no process works on the session that is named.
func throughNode(e config.Either) (asked config.Asked, through bool, err error) {
	asked = e.Asked()
	stored := e.Stored()
	switch {
	case len(e.Nodes.Nodes) > 0:
		return asked, true, nil
	case e.State.File != "":
		if path := ownerOf(e.State.File); path != "" {
			asked.Nodes.Nodes = []string{path}
			return asked, true, nil
		}
		return asked, false, nil
	case stored.Named():
		return asked, false, nil
	case e.State.Session.Name != "":
		asked.Nodes.Nodes, err = socketsOf(e.State.Session.Name)
		return asked, true, err
	}
	return asked, len(localSockets()) > 0 || len(api.OwnSockets(os.Getenv)) > 0, nil
}
