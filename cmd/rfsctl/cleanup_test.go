package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestAMigrationThatIsNotCompleteIsForgottenOnlyByForce(t *testing.T) {
	path := kept(t, time.Hour) // with FAILED items, and without records of phases
	if code, _, errs := rfsctl(t, "cleanup", "--coordinator-file", path); code != 1 || !strings.Contains(errs, "not complete") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := rfsctl(t, "cleanup", "--coordinator-file", path, "--force"); code != 0 || !strings.Contains(out, "removed "+path) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
}
