// Package exit holds the exit codes of rfsd and rfsctl. A number has the same meaning in every command of both programs.
package exit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// Code is the exit code of a command.
type Code int

// The codes of rfsd worker are those that a daemon expects of its workers.
const (
	OK         Code = 0
	Failed     Code = 1
	LeaseEnded Code = 2
	NoneLeft   Code = 3
	NotYet     Code = 4
	Snapshot   Code = 5
	Documents  Code = 6
	Parts      Code = 7
	Different  Code = 8
	Unknown    Code = 9
)

var meanings = [...]string{
	OK:         "done",
	Failed:     "not done: usage, configuration, no access, no answer, or interrupted",
	LeaseEnded: "the lease ended first; the rest was handed off or is free again",
	NoneLeft:   "no work is left",
	NotYet:     "not yet: it is in progress, or other processes hold the rest",
	Snapshot:   "the snapshot is damaged, cannot be read, or could not be made",
	Documents:  "documents were rejected, have no source or only a part of it",
	Parts:      "indices, shards or files failed, are damaged or missing, or would be refused",
	Different:  "a comparison found differences",
	Unknown:    "unknown: an order may have been stored; rfsctl status shows whether it is in force",
}

// String returns the meaning of c.
func (c Code) String() string {
	if c < 0 || int(c) >= len(meanings) {
		return fmt.Sprintf("exit code %d", int(c))
	}
	return meanings[c]
}

// usual are the codes of every command.
var usual = []Code{OK, Failed}

// further are the codes of single commands in addition to the usual ones.
var further = map[string][]Code{
	"rfsd consume":            {Documents, Parts},
	"rfsd follow":             {NotYet, Snapshot, Documents, Parts},
	"rfsd import":             {Documents, Parts},
	"rfsd migrate":            {NotYet, Snapshot, Documents, Parts, Different},
	"rfsd plan":               {Snapshot, Parts},
	"rfsd redrive":            {Documents},
	"rfsd run":                {Snapshot, Documents, Parts, Different},
	"rfsd verify":             {Snapshot, Documents, Parts, Different},
	"rfsd worker":             {LeaseEnded, NoneLeft, NotYet, Snapshot},
	"rfsctl cleanup":          {NotYet, Parts},
	"rfsctl cutover":          {NotYet},
	"rfsctl failures":         {Documents, Parts},
	"rfsctl drain":            {Unknown},
	"rfsctl pause":            {Unknown},
	"rfsctl resume":           {Unknown},
	"rfsctl scale":            {Unknown},
	"rfsctl set":              {Unknown},
	"rfsctl snapshot list":    {Snapshot},
	"rfsctl snapshot show":    {Snapshot},
	"rfsctl snapshot diff":    {Snapshot},
	"rfsctl snapshot extract": {Snapshot, Parts},
	"rfsctl snapshot check":   {Snapshot, Parts},
	"rfsctl status":           {NotYet, Documents, Parts},
	"rfsctl undo":             {NotYet, Parts},
}

// Codes returns the codes that a command, named as it is typed, can end with.
func Codes(command string) []Code {
	codes := slices.Concat(usual, further[command])
	slices.Sort(codes)
	return codes
}

// Document adds the exit codes of every command of app to its help.
func Document(app *cli.App) {
	document(app.Name, app.Commands)
}

func document(parent string, commands []*cli.Command) {
	for _, c := range commands {
		name := parent + " " + c.Name
		if len(c.Subcommands) > 0 {
			document(name, c.Subcommands)
			continue
		}
		var help strings.Builder
		if c.Description != "" {
			help.WriteString(c.Description + "\n\n")
		}
		help.WriteString("Exit codes:")
		for _, code := range Codes(name) {
			fmt.Fprintf(&help, "\n  %d  %s", int(code), code)
		}
		c.Description = help.String()
	}
}

// Error is the end of a command with a code other than OK and Failed. Without Err nothing more is printed.
type Error struct {
	Code Code
	Err  error
}

// With returns an error that ends the command with code, after err was printed; nil for OK without err.
func With(code Code, err error) error {
	if code == OK && err == nil {
		return nil
	}
	return &Error{code, err}
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Code.String()
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Of returns the code that a command ends with when it returns err, and the error that is left to print; nil for none.
func Of(err error) (Code, error) {
	var coded *Error
	switch {
	case err == nil:
		return OK, nil
	case errors.As(err, &coded):
		return coded.Code, coded.Err
	}
	return Failed, err
}

// OfMigration returns the code of a migration as far as it has come; whether it is complete is not looked at.
func OfMigration(m *progress.Migration, acceptReduced bool) Code {
	switch {
	case m == nil:
		return OK
	case m.Totals.ItemsBad > 0 || len(m.Failures) > 0:
		return Parts
	case m.Totals.Failed > 0, m.Totals.Reduced > 0 && !acceptReduced:
		return Documents
	}
	return OK
}
