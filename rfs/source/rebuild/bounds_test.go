package rebuild

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// TestValuesBeyondTheBoundMakeADocumentTooLong: it is named as such, and no failure of the shard.
func TestValuesBeyondTheBoundMakeADocumentTooLong(t *testing.T) {
	err := fmt.Errorf("_0.dvd: column b: %w", columns.ErrLong)
	if got := unknownValue(err); !errors.Is(got, ErrTooLong) {
		t.Errorf("%v", got)
	}
	if got := unknownValue(fault.ErrUnavailable); !errors.Is(got, fault.ErrUnavailable) {
		t.Errorf("%v", got)
	}
}
