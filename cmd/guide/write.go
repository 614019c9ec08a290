package guide

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/help"
)

// WriteNew prints a new file. The given values are set in it, and the other frequent settings of rfsd run are comments with their
// defaults. Secrets are left out.
func WriteNew(w io.Writer, settings []config.Setting, values config.Values) error {
	lines := []string{
		"# Configuration of an rfsd node. Lines with # are not in force. The environment (RFS_…) and options of the command line come first.",
		"# rfsd config check FILE checks it; rfsd run --help-all describes every setting.", "",
	}
	frequent := guides["rfsd run"].options
	for _, section := range config.Tables(settings) {
		var of []string
		for _, s := range settings {
			texts, given := values[s.Name]
			if s.Section != section || s.Secret || !given && !slices.Contains(frequent, s.Name) {
				continue
			}
			var b strings.Builder
			switch {
			case given:
			case s.Kind == config.Bool:
				texts = []string{"true"}
			default:
				texts = []string{cmp.Or(s.Default, placeholder(s))}
			}
			if err := config.WriteKey(&b, s, texts); err != nil {
				return err
			}
			line := strings.TrimSpace(b.String())
			if !given {
				line = "# " + line
			}
			text := cmp.Or(brief[s.Name][1], s.Usage())
			of = append(of, "# "+help.Wrapped(text, help.UsualWidth-2, "\n# "), line)
		}
		if len(of) > 0 {
			lines = append(append(append(lines, "["+section+"]"), of...), "")
		}
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(strings.Join(lines, "\n"), "\n"))
	return err
}
