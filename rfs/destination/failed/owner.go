package failed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Owner returns the mark of the session that a file belongs to. The name of the file contains its hash. A new session of the same
// name has another mark.
type Owner func(ctx context.Context) (mark string, err error)

// ownedName matches the suffix of a file's name without extension, and of a folder of objects.
var ownedName = regexp.MustCompile(`~[0-9a-f]{16}$`)

// suffix returns the suffix of the names of a session's files; "" for a nil Owner.
func (o Owner) suffix(ctx context.Context) (string, error) {
	if o == nil {
		return "", nil
	}
	mark, err := o(ctx)
	return suffix(mark), err
}

func suffix(mark string) string {
	sum := sha256.Sum256([]byte(mark))
	return "~" + hex.EncodeToString(sum[:8])
}

// OfAnother reports whether the name of a file or object has the mark of another session. A name without
// a mark, which an operator gave, belongs to every session.
func OfAnother(name, mark string) bool {
	name = filepath.ToSlash(name)
	owner := strings.TrimSuffix(path.Base(name), extension)
	if !ownedName.MatchString(owner) {
		if strings.Trim(owner, "0123456789") != "" { // not a numbered object of a writer
			return false
		}
		owner = path.Base(path.Dir(name))
	}
	return ownedName.MatchString(owner) && !strings.HasSuffix(owner, suffix(mark))
}
