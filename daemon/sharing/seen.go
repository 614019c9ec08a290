package sharing

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// Seen keeps the highest revision of each scope's record in a directory of this machine. Without it, an old signed record could be restored
// by an attacker and would be accepted.
type Seen struct{ Dir string }

func (s Seen) file(scope Scope) string {
	name := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(scope.Session), scope.Session, scope.Cluster))
	return filepath.Join(s.Dir, "settings-"+hex.EncodeToString(name[:12]))
}

// Revision returns the highest recorded revision, or 0.
func (s Seen) Revision(scope Scope) (int64, error) {
	b, err := os.ReadFile(s.file(scope))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("revision of the fleet's settings: %w: %w", err, fault.ErrConfig)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("revision of the fleet's settings: %s holds no number; remove it if the settings in the control index are known to be right: %w", s.file(scope), fault.ErrConfig)
	}
	return n, nil
}

// Note records a revision unless a higher one is recorded. It is durable when Note returns.
func (s Seen) Note(scope Scope, revision int64) error {
	was, err := s.Revision(scope)
	if err != nil || revision <= was {
		return err
	}
	if err := files.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("revision of the fleet's settings: %w: %w", err, fault.ErrConfig)
	}
	err = files.Replace(s.file(scope), 0o600, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, revision)
		return err
	})
	if err != nil {
		return fmt.Errorf("revision of the fleet's settings: %w", err)
	}
	return nil
}
