package link_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/link"
)

// A worker reads its first command and sends its final record, after which the daemon sees the end of the pipe.
func Example() {
	commands, toWorker, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	records, fromWorker, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	in, _ := syscall.Dup(int(commands.Fd())) // as a worker inherits them
	out, _ := syscall.Dup(int(fromWorker.Fd()))
	fromWorker.Close()
	_ = json.NewEncoder(toWorker).Encode(daemon.WorkerCommand{Slot: 3, Options: map[string][]string{"slots": {"1"}}})

	pipe, err := link.Open(out, in, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("slot", pipe.First.Slot, pipe.First.Options)
	code := daemon.ExitNoneLeft
	fmt.Println(pipe.Finish(daemon.Record{Exit: &code, Outcome: "RELEASED"}))

	all, err := io.ReadAll(records)
	fmt.Printf("%s%v\n", all, err)
	// Output:
	// slot 3 map[slots:[1]]
	// <nil>
	// {"exit":3,"outcome":"RELEASED"}
	// <nil>
}
