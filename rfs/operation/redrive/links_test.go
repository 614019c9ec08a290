//go:build unix

package redrive

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRedrive_ByRootInTheFolderOfAService checks that the user of a service gains nothing when root re-drives its files.
func TestRedrive_ByRootInTheFolderOfAService(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change owners")
	}
	const service = 65534
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		attack  func(dir, precious string)
		storage func(dir string) Storage
		fails   bool
	}{
		{name: "nothing"},
		{name: "a link at the name that drafts had", attack: func(dir, precious string) { must(os.Symlink(precious, filepath.Join(dir, ".w.ndjson.redrive"))) }},
		{name: "the file becomes a link", attack: func(dir, precious string) {
			must(os.Remove(filepath.Join(dir, "w.ndjson")))
			must(os.Symlink(precious, filepath.Join(dir, "w.ndjson")))
		}, storage: listed, fails: true},
		{name: "the file becomes a hard link", attack: func(dir, precious string) {
			must(os.Remove(filepath.Join(dir, "w.ndjson")))
			must(os.Link(precious, filepath.Join(dir, "w.ndjson")))
		}, storage: listed, fails: true},
		{name: "the folder becomes a link", attack: func(dir, precious string) {
			must(os.Rename(dir, dir+"-was"))
			must(os.Symlink(filepath.Dir(precious), dir))
		}, storage: listed, fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := t.TempDir()
			home, dir, roots := filepath.Join(top, "home"), filepath.Join(top, "home", "failed"), filepath.Join(top, "roots")
			for _, name := range []string{home, dir, roots} {
				must(os.Mkdir(name, 0o755))
			}
			write(t, dir, "w", refusal("logs", "a", 1))
			f, err := os.OpenFile(filepath.Join(dir, "w.ndjson"), os.O_APPEND|os.O_WRONLY, 0)
			must(err)
			_, err = f.WriteString("attacker-controlled line\n")
			must(err)
			must(f.Close())
			precious := filepath.Join(roots, "w.ndjson")
			must(os.WriteFile(precious, []byte("precious\n"), 0o600))
			for _, name := range []string{home, dir, filepath.Join(dir, "w.ndjson")} {
				must(os.Lchown(name, service, service))
			}
			if c.attack != nil {
				c.attack(dir, precious)
			}
			storage := Storage(Folder(dir))
			if c.storage != nil {
				storage = c.storage(dir)
			}
			report, err := redriveOf(storage, &cluster{}).Run(t.Context())
			if (err != nil) != c.fails || !c.fails && report.Indexed != 1 {
				t.Errorf("%s, %v", numbers(report), err)
			}
			b, err := os.ReadFile(precious)
			must(err)
			entries, err := os.ReadDir(roots)
			must(err)
			if string(b) != "precious\n" || len(entries) != 1 {
				t.Errorf("the file of root holds %q, and beside it are %v", b, entries)
			}
			if c.fails {
				return
			}
			info, err := os.Lstat(filepath.Join(dir, "w.ndjson"))
			must(err)
			if is, ok := info.Sys().(*syscall.Stat_t); !ok || is.Uid != service || !info.Mode().IsRegular() {
				t.Errorf("the file belongs to %+v", info.Sys())
			}
			if text := held(t, dir)["w.ndjson"]; len(text) != 1 {
				t.Errorf("it holds %q", text)
			}
		})
	}
}

// stale is a folder whose files were listed before something happened to them.
type stale struct{ Folder }

func (s stale) Names(context.Context) ([]string, error) {
	return []string{filepath.Join(string(s.Folder), "w.ndjson")}, nil
}

func listed(dir string) Storage { return stale{Folder(dir)} }
