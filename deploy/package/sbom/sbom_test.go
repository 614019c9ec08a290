package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryModuleOfAProgramIsListedWithItsLicence(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "rfsctl")
	build := exec.Command("go", "build", "-o", program, "github.com/rfsd/rfsd/cmd/rfsctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bom, licences := filepath.Join(dir, "bom.json"), filepath.Join(dir, "licences")
	if err := run("1.2.3", bom, licences, []string{program}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(bom)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct {
			Name, Version string
			Licenses      []struct{ License struct{ ID string } }
		}
	}
	if err := json.Unmarshal(b, &list); err != nil || list.BOMFormat != "CycloneDX" {
		t.Fatalf("%v, %s", err, list.BOMFormat)
	}
	out, err := exec.Command("go", "version", "-m", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Count(string(out), "\tdep\t")
	if deps == 0 || len(list.Components) != deps+1 { // and Go itself
		t.Errorf("%d components of %d modules", len(list.Components), deps)
	}
	for _, c := range list.Components[1:] {
		if c.Version == "" || len(c.Licenses) != 1 || c.Licenses[0].License.ID == "NOASSERTION" {
			t.Errorf("%s %s: licence %v", c.Name, c.Version, c.Licenses)
		}
	}
	texts, err := os.ReadFile(licences)
	if err != nil || !strings.Contains(string(texts), "(Apache-2.0)") {
		t.Errorf("licences: %v, %d bytes", err, len(texts))
	}
	if err := run("1", bom, licences, nil); err == nil {
		t.Error("no program is not an error")
	}
}
