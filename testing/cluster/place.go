package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// place is where a node listens, and its name.
type place struct {
	name            string
	http, transport int
}

// Ports are taken below 32768, where Linux and others begin to hand out ports for outgoing connections:
// a node needs seconds until it listens, and must find its port free then.
const lowPort, highPort = 20000, 32768

// FreeAddress returns an address on loopback where nothing listens, of such a port. Meanwhile this process starts no other: the copy
// of the listener in a child that has not executed its program yet would keep the port taken.
func FreeAddress() (string, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := listenBelow()
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// tried counts the ports that this process has tried, from a random one on: a port that was found free comes again only after all
// others, however late it is used.
var tried = func() *atomic.Uint32 {
	var n atomic.Uint32
	n.Store(rand.Uint32N(highPort - lowPort))
	return &n
}()

// listenBelow listens on a free port of those.
func listenBelow() (l net.Listener, err error) {
	for range 1000 {
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowPort+tried.Add(1)%(highPort-lowPort))); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("free port: %w", err)
}

// free finds places on loopback where no process listens, the first with the given HTTP port unless that is 0.
func free(count, port int) ([]place, error) {
	syscall.ForkLock.RLock() // as in FreeAddress
	defer syscall.ForkLock.RUnlock()
	var held []net.Listener
	defer func() {
		for _, l := range held { // all are held until every one is found
			_ = l.Close()
		}
	}()
	listen := func(port int) error {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			held = append(held, l)
		}
		return err
	}
	find := func() (int, error) {
		l, err := listenBelow()
		if err != nil {
			return 0, err
		}
		held = append(held, l)
		return l.Addr().(*net.TCPAddr).Port, nil
	}
	var places []place
	for range count {
		var err error
		p := place{http: port}
		if port != 0 {
			err = listen(port)
		} else {
			p.http, err = find()
		}
		if err != nil {
			return nil, err
		}
		if p.transport, err = find(); err != nil {
			return nil, err
		}
		p.name = fmt.Sprintf("rfsd-%d-%d", os.Getpid(), p.http)
		places = append(places, p)
	}
	return places, nil
}

// dirPrefix and the process that owns the node begin the name of a working directory.
const dirPrefix = "rfsd-node-"

// workDir makes the directory of one node below tmp, with its subdirectories, and removes those of ended processes.
func workDir(tmp string) (string, error) {
	if err := sweep(tmp); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(tmp, fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return "", err
	}
	for _, d := range []string{"config", "data", "logs", "tmp", "repos", "modules", "plugins", "lib"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return "", err
		}
	}
	return dir, os.Chmod(dir, 0o755)
}

// sweep removes what nodes left behind whose owner, and they with it, were killed. What cannot be removed
// is another user's, or a node is just ending there: the next sweep finds it.
func sweep(tmp string) error {
	left, err := filepath.Glob(filepath.Join(tmp, dirPrefix+"*-*"))
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = os.RemoveAll(dir)
	}
	return nil
}
