// Package outputtest decodes the output of commands with --output json in tests.
package outputtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Document is a document that a command has printed.
type Document struct {
	Command  string          `json:"command"`
	Format   int             `json:"format_version"`
	ExitCode *int            `json:"exit_code"`
	Error    string          `json:"error"`
	Data     json.RawMessage `json:"data"`
}

// Documents returns all documents of an output. Only the last one has an exit code; another form is an error.
func Documents(stdout string) (all []Document, err error) {
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	for {
		var d Document
		if err := dec.Decode(&d); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%w in %.300q", err, stdout)
		}
		if !strings.HasPrefix(d.Command, "rfs") || d.Format != 1 {
			return nil, fmt.Errorf("document of command %q, format %d", d.Command, d.Format)
		}
		if n := len(all); n > 0 && all[n-1].ExitCode != nil {
			return nil, errors.New("a document follows the one with the exit code")
		}
		all = append(all, d)
	}
	return all, nil
}

// Decode reads the data of the only document of an output.
func Decode[T string | []byte](stdout T, into any) error {
	all, err := Documents(string(stdout))
	switch {
	case err != nil:
		return err
	case len(all) != 1 || all[0].ExitCode == nil:
		return fmt.Errorf("want one document with an exit code, have %.300q", string(stdout))
	case all[0].Data == nil:
		return fmt.Errorf("no data: exit code %d: %s", *all[0].ExitCode, all[0].Error)
	}
	return json.Unmarshal(all[0].Data, into)
}
