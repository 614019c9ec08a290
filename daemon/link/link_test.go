package link_test

import (
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/link"
)

// TestPipe_StatusWithoutAParent: a program that passes only --status-fd reads one record, the final one.
func TestPipe_StatusWithoutAParent(t *testing.T) {
	records, fromWorker, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := syscall.Dup(int(fromWorker.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	fromWorker.Close()
	pipe, err := link.Open(out, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	pipe.Send(daemon.Record{Lease: &daemon.Lease{Item: "a"}})
	code := daemon.ExitNoneLeft
	if err := pipe.Finish(daemon.Record{Exit: &code, Outcome: "released"}); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(records)
	if want := "{\"exit\":3,\"outcome\":\"released\"}\n"; err != nil || string(all) != want {
		t.Errorf("%q, %v; want %q", all, err, want)
	}
}
