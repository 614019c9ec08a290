package fault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestNestedDamageIsToldOnceWithAllThatIsKnown(t *testing.T) {
	inner := fault.Corrupt("blob", "", 7, "wrong byte")
	outer := &fault.Damage{File: "_0.cfs", Offset: -1, Err: inner}
	if got, want := outer.Error(), "corrupt blob blob file _0.cfs at offset 7: wrong byte"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(fmt.Errorf("read: %w", outer), fault.ErrCorrupt) {
		t.Error("no ErrCorrupt")
	}
}

func TestTextLeavesOutTheCategory(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("no such flag: %w", fault.ErrConfig),
		fmt.Errorf("no such flag: %w: %w: %w", fault.ErrConfig, fault.ErrUnavailable, fault.ErrConfig),
	} {
		if got := fault.Text(err); got != "no such flag" {
			t.Errorf("%q", got)
		}
		if got := fault.Text(errors.Join(err, err)); got != "no such flag\nno such flag" {
			t.Errorf("%q", got)
		}
	}
}

func TestTextLeavesOutACategoryBetweenParts(t *testing.T) {
	err := fmt.Errorf("the bucket is missing: %w: %w", fault.ErrConfig, fmt.Errorf("the store is gone: %w", fault.ErrConfig))
	if got := fault.Text(err); got != "the bucket is missing: the store is gone" {
		t.Errorf("%q", got)
	}
}

func TestAFullDiskNamesWhatToDo(t *testing.T) {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := fmt.Errorf("export index a: %w: %w", &fs.PathError{Op: "write", Path: "/out/a", Err: full}, fault.ErrConfig)
		if got := fault.Text(err); !strings.HasPrefix(got, "export index a: write /out/a: ") || !strings.Contains(got, "; free space there") {
			t.Errorf("%q", got)
		}
	}
}
