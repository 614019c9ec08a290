package browser

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	axeVersion = "4.14.1"
	axeSum     = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c" // of axe.min.js, SHA-256
	maxAxe     = 4 << 20
)

// ErrNoAxe means that axe-core is not installed in the user's cache.
var ErrNoAxe = errors.New("axe-core " + axeVersion + " is not installed; run testing/setup.sh")

// Violation is a rule of axe-core that a page violates.
type Violation struct {
	ID     string `json:"id"`
	Impact string `json:"impact"`
	Help   string `json:"help"`
	Nodes  []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// String returns the rule and the first element that violates it.
func (v Violation) String() string {
	text := fmt.Sprintf("%s (%s): %s, %d elements", v.ID, v.Impact, v.Help, len(v.Nodes))
	if len(v.Nodes) > 0 {
		text += ", such as " + v.Nodes[0].HTML + ": " + v.Nodes[0].Summary
	}
	return text
}

// Axe runs all rules of axe-core in the open page. It returns the violated rules and the number of satisfied ones, or ErrNoAxe.
func (b *Browser) Axe(ctx context.Context) (broken []Violation, kept int, err error) {
	path, err := axePath()
	if err != nil {
		return nil, 0, err
	}
	script, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrNoAxe, err)
	}
	if sum := sha256.Sum256(script); hex.EncodeToString(sum[:]) != axeSum {
		return nil, 0, fmt.Errorf("%s is not axe-core %s: remove it, and run testing/setup.sh", path, axeVersion)
	}
	if err := b.Eval(ctx, string(script)+";true", new(bool)); err != nil {
		return nil, 0, errors.New("axe-core cannot be loaded in the page")
	}
	var out struct {
		Violations []Violation       `json:"violations"`
		Passes     []json.RawMessage `json:"passes"`
	}
	err = b.Eval(ctx, "axe.run(document).then((r) => ({violations: r.violations, passes: r.passes.map((p) => p.id)}))", &out)
	return out.Violations, len(out.Passes), err
}

func axePath() (string, error) {
	cache := os.Getenv("RFSD_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(dir, "rfsd")
	}
	return filepath.Join(cache, "axe-core-"+axeVersion, "axe.min.js"), nil
}

// installTimeout limits the download of axe-core.
const installTimeout = 2 * time.Minute

// InstallAxe returns the path of axe-core in the user's cache. If it is missing, InstallAxe downloads it with npm.
func InstallAxe(ctx context.Context) (string, error) {
	path, err := axePath()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "rfsd-axe-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "axe-core@"+axeVersion)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm pack axe-core@%s: %w\n%s", axeVersion, err, out)
	}
	script, err := scriptIn(filepath.Join(dir, "axe-core-"+axeVersion+".tgz"))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(path+".new", script, 0o644); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path)
}

// scriptIn returns the script in a package of axe-core, after a comparison with axeSum.
func scriptIn(archive string) ([]byte, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	for files := tar.NewReader(unpacked); ; {
		h, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: axe.min.js: %w", archive, err)
		}
		if h.Name != "package/axe.min.js" {
			continue
		}
		script, err := io.ReadAll(io.LimitReader(files, maxAxe))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
		if sum := sha256.Sum256(script); hex.EncodeToString(sum[:]) != axeSum {
			return nil, fmt.Errorf("%s: axe.min.js has the SHA-256 %x, want %s", archive, sum, axeSum)
		}
		return script, nil
	}
}
