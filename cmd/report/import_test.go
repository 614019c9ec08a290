package report_test

import (
	"errors"
	"io"
	"testing"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

func TestImport_ExitCode(t *testing.T) {
	complete := importer.Status{Complete: true}
	refused, damaged := complete, complete
	refused.Failed = 3
	damaged.Failed, damaged.GivenUp = 3, 1
	for _, c := range []struct {
		status importer.Status
		err    error
		want   exit.Code
	}{
		{complete, nil, exit.OK}, {refused, nil, exit.Documents}, {damaged, nil, exit.Parts}, {importer.Status{}, nil, exit.Failed}, {complete, errors.New("close"), exit.Failed},
	} {
		r := &report.Import{Status: c.status}
		err := r.Conclude(output.New(io.Discard), c.err)
		var coded *exit.Error
		if errors.As(err, &coded); r.ExitCode != c.want || c.want != exit.OK && (coded == nil || coded.Code != c.want) {
			t.Errorf("%+v, %v: exit %d, %v", c.status, c.err, r.ExitCode, err)
		}
	}
}
