package terminal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/terminal"
)

func TestTable_Flush(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"numbers to the right", "NAME\tSHARDS\tDOCUMENTS\tSIZE\tTARGET\nö\t2/2\t1,000\t1.0 MiB\tx\nlogs-1\t1/12\t5\t230 B\ty\ntotal\t\t1,005\t-\t\n",
			"NAME    SHARDS  DOCUMENTS     SIZE  TARGET\nö          2/2      1,000  1.0 MiB  x\nlogs-1    1/12          5    230 B  y\ntotal               1,005        -\n"},
		{"versions and nothing", "A\tB\n7.10.2\t-\n1.0\t-\n", "A       B\n7.10.2  -\n1.0     -\n"},
		{"a word makes it a column of text", "A\tB\n1\tx\n22\t3\n", " A  B\n 1  x\n22  3\n"},
		{"lines of other lengths", "a\tb\tc\nd\n\ne\tf\n", "a  b  c\nd\n\ne  f\n"},
		{"a header alone", "A\tB\n", "A  B\n"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			table := terminal.NewTable(&b)
			fmt.Fprint(table, c.lines)
			if err := table.Flush(); err != nil || b.String() != c.want {
				t.Errorf("%v\n%s\nwant\n%s", err, b.String(), c.want)
			}
		})
	}
}
