package export

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Holds reports whether the directory has a finished file of the item in the folder of an index, of any compression.
func (d *Dir) Holds(index string, shard int, cursor int64) (bool, error) {
	base := filepath.Join(d.folder(index), fmt.Sprintf("%d-%d", shard, cursor))
	for _, ext := range extensions {
		_, err := os.Stat(base + ext)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("export directory: %w: %w", err, fault.ErrConfig)
		}
	}
	return false, nil
}
