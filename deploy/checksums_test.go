package deploy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checksumFaults compares SHA256SUMS with what is to be given away: every package, and beside it what it is made of.
func checksumFaults(dist string) (faults []string) {
	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		return []string{err.Error()}
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(sums)) {
		want, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		content, err := os.ReadFile(filepath.Join(dist, name))
		sum := sha256.Sum256(content)
		if !ok || err != nil || hex.EncodeToString(sum[:]) != want {
			faults = append(faults, fmt.Sprintf("%s is not what SHA256SUMS states: %v", name, err))
		}
		listed[name] = true
	}
	packages := 0
	for _, pattern := range []string{"*.deb", "*.rpm", "*/rfsd.cdx.json", "*/LICENCES.txt"} {
		files, err := filepath.Glob(filepath.Join(dist, pattern))
		if err != nil || len(files) == 0 {
			faults = append(faults, fmt.Sprintf("no %s, %v", pattern, err))
		}
		for _, f := range files {
			name, err := filepath.Rel(dist, f)
			if err != nil || !listed[name] {
				faults = append(faults, fmt.Sprintf("SHA256SUMS lacks %s", f))
			}
			packages++
		}
	}
	if len(listed) != packages {
		faults = append(faults, fmt.Sprintf("SHA256SUMS lists %d files, there are %d", len(listed), packages))
	}
	return faults
}

func TestPackagesComeWithChecksums(t *testing.T) {
	for _, f := range checksumFaults(packageFor(t)) {
		t.Error(f)
	}
}

// TestChecksumFaults: what TestPackagesComeWithChecksums finds.
func TestChecksumFaults(t *testing.T) {
	files := []string{"rfsd_1.deb", "rfsd_1.rpm", "amd64/rfsd.cdx.json", "amd64/LICENCES.txt"}
	for _, c := range []struct {
		name   string
		change func(dist string) error
		want   string
	}{
		{"as it is built", func(string) error { return nil }, ""},
		{"a changed package", func(dist string) error { return os.WriteFile(filepath.Join(dist, files[0]), []byte("other"), 0o600) }, "rfsd_1.deb is not"},
		{"a package that is not listed", func(dist string) error { return os.WriteFile(filepath.Join(dist, "rfsd_2.rpm"), nil, 0o600) }, "lacks"},
		{"a package that is missing", func(dist string) error { return os.Remove(filepath.Join(dist, files[1])) }, "rfsd_1.rpm is not"},
		{"no sums", func(dist string) error { return os.Remove(filepath.Join(dist, "SHA256SUMS")) }, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dist, sums := t.TempDir(), ""
			if err := os.Mkdir(filepath.Join(dist, "amd64"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range files {
				if err := os.WriteFile(filepath.Join(dist, name), []byte(name), 0o600); err != nil {
					t.Fatal(err)
				}
				sums += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(name)), name)
			}
			if err := os.WriteFile(filepath.Join(dist, "SHA256SUMS"), []byte(sums), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.change(dist); err != nil {
				t.Fatal(err)
			}
			faults := checksumFaults(dist)
			if c.want == "" && len(faults) > 0 || c.want != "" && !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.want) }) {
				t.Errorf("%q", faults)
			}
		})
	}
}
