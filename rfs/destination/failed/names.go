package failed

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Names calls each with the target index and id of every failure in a file, in order; a document may occur repeatedly. It skips an
// unfinished last line. Errors are fault.ErrCorrupt, the error of each, and errors of reading.
func Names(r io.Reader, each func(index, id string) error) error {
	lines := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		b, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var l struct{ Index, ID string }
		if err := json.Unmarshal(b, &l); err != nil {
			return fmt.Errorf("line %d of failed documents: %w: %w", n, err, fault.ErrCorrupt)
		}
		if err := each(l.Index, l.ID); err != nil {
			return err
		}
	}
}
