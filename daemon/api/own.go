package api

import (
	"cmp"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// ownDirs returns the directories in which processes of this user keep their sockets. A process uses the first, clients search all: a login
// session has other variables than a timer, and its directory is removed when it ends.
func ownDirs(env func(string) string) []string {
	uid := strconv.Itoa(os.Geteuid())
	var all []string
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		all = append(all, filepath.Join(dir, "rfsd"))
	}
	all = append(all, filepath.Join(cmp.Or(env("TMPDIR"), os.TempDir()), "rfsd-"+uid))
	if login := filepath.Join("/run/user", uid, "rfsd"); !slices.Contains(all, login) {
		all = append(all, login)
	}
	return all
}

// NewOwnSocket returns a socket path for a command in this process, such as migrate-4711.sock, in a directory that only this user can
// enter. It creates the directory, and removes the sockets of killed processes.
func NewOwnSocket(command string, env func(string) string) (string, error) {
	dir := ownDirs(env)[0]
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("directory of the socket: %w: %w", err, fault.ErrConfig)
	}
	if err := private(dir); err != nil {
		return "", err
	}
	for _, path := range socketsIn(dir) {
		if !served(path) && !alive(path) {
			_ = os.Remove(path) // another process may have removed it
		}
	}
	return filepath.Join(dir, fmt.Sprintf("%s-%d.sock", command, os.Getpid())), nil
}

// OwnSockets returns the sockets of this user's running commands, sorted by path.
func OwnSockets(env func(string) string) (all []string) {
	for _, dir := range ownDirs(env) {
		if private(dir) != nil {
			continue
		}
		for _, path := range socketsIn(dir) {
			if served(path) {
				all = append(all, path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// private returns an error unless dir is a directory that only this user can enter.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("directory of the socket: %w: %w", err, fault.ErrConfig)
	}
	if !info.IsDir() || !onlyForUser(info) {
		return fmt.Errorf("%s is not a directory that only this user can enter: remove it: %w", dir, fault.ErrConfig)
	}
	return nil
}

// ProcessOf returns the process id in the name of a socket, or 0.
func ProcessOf(path string) int {
	name := strings.TrimSuffix(filepath.Base(path), ".sock")
	pid, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

func socketsIn(dir string) (all []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSocket != 0 && strings.HasSuffix(e.Name(), ".sock") {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all
}

func served(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// alive reports whether the process in the name of a socket exists.
func alive(path string) bool {
	pid := ProcessOf(path)
	return pid > 0 && processExists(pid)
}
