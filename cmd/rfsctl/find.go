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
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/terminal"
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
		return nil, fmt.Errorf("no node runs on this machine (%s does not exist, or is not yours), and no rfsd of this user in the foreground; --node HOST:PORT asks another node, --target-host reads the state of the work: %w", operatorSocket, fault.ErrConfig)
	case 1:
		return own, nil
	}
	names := make([]string, len(own))
	for i, path := range own {
		names[i] = "--node " + path
		if session, err := sessionOf(path); err == nil {
			names[i] += " (session " + orDash(terminal.Clean(session)) + ")"
		}
	}
	return nil, fmt.Errorf("%d commands of rfsd run: choose by --session-name, or by %s: %w", len(own), strings.Join(names, ", "), fault.ErrConfig)
}

// ownOf returns the socket of the one command of this user that works on a session; "" for none or several.
func ownOf(session string) string {
	var all []string
	for _, path := range api.OwnSockets(os.Getenv) {
		if is, err := sessionOf(path); err == nil && is == session {
			all = append(all, path)
		}
	}
	if len(all) != 1 {
		return ""
	}
	return all[0]
}

// sessionOf asks a socket for its session.
func sessionOf(path string) (string, error) {
	c, err := client.New(client.Options{Nodes: []string{path}})
	if err != nil {
		return "", err
	}
	var r status.Report
	if _, err := c.Get(context.Background(), "/v1/status", nil, &r); err != nil {
		return "", err
	}
	if r.Migration == nil {
		return "", fmt.Errorf("%s has not read its session yet: %w", path, fault.ErrUnavailable)
	}
	return r.Migration.Session, nil
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

// localSockets are those of nodes that this user may open.
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

// throughNode reports whether a running process is asked, and which: one is named, it has the named file open, or no store is
// named and one runs here.
func throughNode(e config.Either) (config.Asked, bool) {
	asked := e.Asked()
	stored := e.Stored()
	switch {
	case len(e.Nodes.Nodes) > 0:
		return asked, true
	case e.State.File != "":
		if path := ownerOf(e.State.File); path != "" {
			asked.Nodes.Nodes = []string{path}
			return asked, true
		}
		return asked, false
	case stored.Named():
		return asked, false
	case e.State.Session.Name != "":
		if path := ownOf(e.State.Session.Name); path != "" {
			asked.Nodes.Nodes = []string{path}
			return asked, true
		}
	}
	return asked, len(localSockets()) > 0 || len(api.OwnSockets(os.Getenv)) > 0
}
