package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTroubleshootingNamesRealMessages checks that each message of the page is in a string of a program.
func TestTroubleshootingNamesRealMessages(t *testing.T) {
	root := filepath.Join("..", "..")
	var code strings.Builder
	for _, dir := range []string{"cmd", "daemon", "rfs", "store", "gossip"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			b, err := os.ReadFile(name)
			code.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "TROUBLESHOOTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		n++
		for part := range strings.SplitSeq(row[1], "…") {
			if part = strings.TrimSpace(part); !strings.Contains(code.String(), part) && part != "no permissions for" && part != "corrupt blob" { // of the security plugin, and of two parts
				t.Errorf("no program prints %q", part)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d messages", n)
	}
}
