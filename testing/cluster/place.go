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

// place is the address and the name of a node.
type place struct {
	name            string
	http, transport int
}

// lowPort and highPort bound the ports of nodes. They are below 32768, where Linux and others start assigning ports to outgoing
// connections: a node takes seconds until it listens, and its port must still be free then.
const lowPort, highPort = 20000, 32768

// FreeAddress returns a free address on loopback with a port in that range. It blocks the start of other processes meanwhile, because a
// forked child that has not yet executed its program holds a copy of the listener and keeps the port in use.
func FreeAddress() (string, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := listenBelow()
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// tried is a counter of the ports that this process has tried, starting with a random one. So a port that was found free is only reused
// after all others, however late its user starts.
var tried = func() *atomic.Uint32 {
	var n atomic.Uint32
	n.Store(rand.Uint32N(highPort - lowPort))
	return &n
}()

// listenBelow listens on a free port in the range.
func listenBelow() (l net.Listener, err error) {
	for range 1000 {
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowPort+tried.Add(1)%(highPort-lowPort))); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("free port: %w", err)
}

// free returns free places on loopback; the first has the given HTTP port unless that is 0.
func free(count, port int) ([]place, error) {
	syscall.ForkLock.RLock() // as in FreeAddress
	defer syscall.ForkLock.RUnlock()
	var held []net.Listener
	defer func() {
		for _, l := range held { // all listeners are held until every place is found
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

// dirPrefix is the prefix of working directories; the id of the owning process follows.
const dirPrefix = "rfsd-node-"

// workDir creates the working directory of a node below tmp, with its subdirectories, and removes directories of ended processes.
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

// sweep removes directories of nodes whose owner was killed. A directory that cannot be removed belongs to another user or to a node that
// is still stopping; the next sweep removes it.
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
