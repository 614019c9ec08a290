// Package output writes what a command prints to standard output: text as it comes, or with --output json documents of one form.
package output

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/terminal"
)

// Format is the version of the form of all documents and their data. It grows when a member is removed or changes its meaning.
const Format = 1

// Document is the form of --output json, whether the command succeeds or fails.
type Document struct {
	Command  string     `json:"command"` // as it is typed, such as rfsctl items list
	Format   int        `json:"format_version"`
	ExitCode *exit.Code `json:"exit_code,omitempty"` // of the last document of a command
	Error    string     `json:"error,omitempty"`     // why the command failed, as on standard error
	Data     any        `json:"data,omitempty"`
}

// Writer is the standard output of a command. With JSON it drops text and writes a Document for each result, the last one at the end
// of the command with its exit code.
type Writer struct {
	JSON bool

	text    io.Writer
	command string
	held    any  // the last result, which is not written yet
	lines   bool // further documents were written: each is a line
}

// New returns a Writer of text.
func New(text io.Writer) *Writer { return &Writer{text: text} }

// Start sets the name of the command, as it is typed, and the form of its output.
func (w *Writer) Start(command string, asJSON bool) { w.command, w.JSON = command, asJSON }

// Write writes text. With JSON it is dropped.
func (w *Writer) Write(b []byte) (int, error) {
	if w.JSON {
		return len(b), nil
	}
	return w.text.Write(b)
}

// Raw returns the writer for control of the screen.
func (w *Writer) Raw() io.Writer { return terminal.Raw(w.text) }

// Result sets the result of the command, which is written with its exit code, or of a part of it if another result follows. Without
// JSON it does nothing.
func (w *Writer) Result(v any) error {
	err := w.Flush()
	if w.JSON {
		w.held = v
	}
	return err
}

// Flush writes a result after which the command continues.
func (w *Writer) Flush() error {
	if w.held == nil {
		return nil
	}
	w.lines = true
	return w.write(Document{Data: w.held})
}

// End writes the last document of the command. err is "" for none.
func (w *Writer) End(code exit.Code, err string) error {
	if !w.JSON {
		return nil
	}
	return w.write(Document{ExitCode: &code, Error: err, Data: w.held})
}

func (w *Writer) write(d Document) error {
	w.held, d.Command, d.Format = nil, w.command, Format
	enc := json.NewEncoder(w.Raw())
	enc.SetEscapeHTML(false)
	if !w.lines {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// Finish ends a command that has returned err: it writes the last document, the error to stderr, and returns the exit code.
func (w *Writer) Finish(program string, err error, text func(error) string, stderr io.Writer) exit.Code {
	code, err := exit.Of(err)
	said := ""
	if err != nil {
		said = text(err)
		fmt.Fprintf(stderr, "%s: %s\n", program, said)
	}
	if werr := w.End(code, said); werr != nil {
		fmt.Fprintf(stderr, "%s: %s\n", program, werr)
		return max(code, exit.Failed)
	}
	return code
}
