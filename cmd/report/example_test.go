package report_test

import (
	"fmt"
	"os"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
)

// The report of an import with a failed document ends the command with exit code 6.
func Example() {
	r := &report.Import{Source: "file:///exports", OwnWindows: 1, FailedDir: "rfsd-failed"}
	r.Complete, r.Files, r.Windows, r.Failed = true, 1, 1, 1
	code, _ := exit.Of(r.Conclude(output.New(os.Stdout), nil))
	fmt.Println("exit code", int(code))
	// Output:
	// file:///exports: 1 file, 0 B of 0 B in 1 window
	// documents 0: indexed 0, kept 0, failed 1, filtered 0; 0 B
	// 1 documents did not arrive; each process keeps its own with their reasons (this one in rfsd-failed)
	// 0.0 s, 1 window by this process
	// exit code 6
}
