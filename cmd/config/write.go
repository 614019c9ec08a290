package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/rfs/base/secret"
)

// Write prints the values as a file, without secrets, including secrets in URLs.
func Write(w io.Writer, settings []Setting, values Values) error {
	for _, section := range sections(settings) {
		begun := false
		for _, k := range settings {
			texts, ok := values[k.Name]
			if !ok || k.Section != section {
				continue
			}
			if !begun {
				begun = true
				if _, err := fmt.Fprintf(w, "[%s]\n", section); err != nil {
					return err
				}
			}
			if err := writeKey(w, k, texts); err != nil {
				return err
			}
		}
		if begun {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeKey(w io.Writer, k Setting, texts []string) error {
	if k.Secret {
		_, err := fmt.Fprintf(w, "# %s is set, and not shown\n", k.Name)
		return err
	}
	shown := make([]string, len(texts))
	for i, t := range texts {
		shown[i] = secret.Shown(k.Name, t)
	}
	var value any = shown
	switch {
	case k.Kind == List:
	case len(shown) == 0:
		return nil
	case k.Kind == Text:
		value = shown[0]
	default:
		_, err := fmt.Fprintf(w, "%s = %s\n", k.Name, shown[0])
		return err
	}
	b, err := toml.Marshal(map[string]any{k.Name: value})
	if err != nil {
		return fmt.Errorf("%s: %w", k.Name, err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSpace(string(b)))
	return err
}

// WriteNew prints a new file. The given values are set in it, and the other frequent settings of rfsd run are comments with their
// defaults. Secrets are left out.
func WriteNew(w io.Writer, settings []Setting, values Values) error {
	lines := []string{
		"# Configuration of an rfsd node. Lines with # are not in force. The environment (RFS_…) and options of the command line come first.",
		"# rfsd config check FILE checks it; rfsd run --help-all describes every setting.", "",
	}
	frequent := guides["rfsd run"].options
	for _, section := range sections(settings) {
		var of []string
		for _, s := range settings {
			texts, given := values[s.Name]
			if s.Section != section || s.Secret || !given && !slices.Contains(frequent, s.Name) {
				continue
			}
			var b strings.Builder
			switch {
			case given:
			case s.Kind == Bool:
				texts = []string{"true"}
			default:
				texts = []string{cmp.Or(s.Default, s.placeholder())}
			}
			if err := writeKey(&b, s, texts); err != nil {
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
