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

// Owner returns the mark of the session that a file belongs to, which is a part of its name. A new session of the same name has
// another mark.
type Owner func(ctx context.Context) (mark string, err error)

// ownedName ends the name of a file without its extension, and the folder of objects.
var ownedName = regexp.MustCompile(`~[0-9a-f]{16}$`)

// suffix returns what the names of a session's files end with; "" for an Owner that is nil.
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

// OfAnother reports whether the name of a file or object states that it belongs to a session with another mark. A name without
// a mark, which an operator gave, belongs to each session.
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
