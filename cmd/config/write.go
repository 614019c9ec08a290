package config

import (
	"fmt"
	"io"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/rfsd/rfsd/rfs/base/secret"
)

// Write prints the values as a file, without secrets, including secrets in URLs.
func Write(w io.Writer, settings []Setting, values Values) error {
	for _, section := range Tables(settings) {
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
			if err := WriteKey(w, k, texts); err != nil {
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

// WriteKey prints the line of a setting with its values, without secrets.
func WriteKey(w io.Writer, k Setting, texts []string) error {
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
