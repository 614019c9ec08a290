// Command sbom writes what the programs are made of: a CycloneDX list of their modules, and the licences of these. It reads
// the list that the compiler put into the programs themselves.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	version := flag.String("version", "dev", "version of the programs")
	bom := flag.String("bom", "rfsd.cdx.json", "CycloneDX file to write")
	licences := flag.String("licences", "LICENCES.txt", "file of licence texts to write")
	flag.Parse()
	if err := run(*version, *bom, *licences, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

type component struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	PURL     string `json:"purl"`
	Hashes   []hash `json:"hashes,omitempty"`
	Licenses []any  `json:"licenses,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

func run(version, bom, licences string, programs []string) error {
	if len(programs) == 0 {
		return errors.New("want the paths of the programs")
	}
	modules := map[string]*debug.Module{}
	toolchain := ""
	for _, name := range programs {
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		toolchain = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = m
		}
	}
	texts, err := os.Create(licences)
	if err != nil {
		return err
	}
	components := []component{{Type: "framework", Name: "go", Version: toolchain, PURL: "pkg:generic/go@" + toolchain}}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		m := modules[path]
		kind, text, err := licence(m)
		if err != nil {
			return errors.Join(err, texts.Close())
		}
		components = append(components, component{
			Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version,
			Licenses: []any{map[string]any{"license": map[string]string{"id": kind}}},
		})
		if _, err := fmt.Fprintf(texts, "%s %s (%s)\n\n%s\n\n%s\n\n", m.Path, m.Version, kind, strings.TrimSpace(text), strings.Repeat("-", 78)); err != nil {
			return errors.Join(err, texts.Close())
		}
	}
	if err := texts.Close(); err != nil {
		return err
	}
	f, err := os.Create(bom)
	if err != nil {
		return err
	}
	return errors.Join(write(f, version, components), f.Close())
}

func write(w io.Writer, version string, components []component) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":   map[string]any{"component": component{Type: "application", Name: "rfsd", Version: version, PURL: "pkg:golang/github.com/rfsd/rfsd@" + version}},
		"components": components,
	})
}

// licence returns the kind and the text of a module's licence. A module without one is an error: it must not be packed.
func licence(m *debug.Module) (kind, text string, err error) {
	out, err := exec.Command("go", "mod", "download", "-json", m.Path+"@"+m.Version).Output()
	if err != nil {
		return "", "", fmt.Errorf("find %s %s: %w", m.Path, m.Version, err)
	}
	var at struct{ Dir string }
	if err := json.Unmarshal(out, &at); err != nil {
		return "", "", fmt.Errorf("find %s %s: %w", m.Path, m.Version, err)
	}
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*"} {
		found, err := filepath.Glob(filepath.Join(at.Dir, pattern))
		if err != nil || len(found) == 0 {
			continue
		}
		b, err := os.ReadFile(found[0])
		if err != nil {
			return "", "", err
		}
		return classify(string(b)), string(b), nil
	}
	return "", "", fmt.Errorf("%s %s has no licence file: it must not be packed", m.Path, m.Version)
}

// classify names a licence by the words that are its own.
func classify(text string) string {
	words := strings.Join(strings.Fields(text), " ")
	for _, k := range []struct{ words, kind string }{
		{"Apache License", "Apache-2.0"}, {"Mozilla Public License", "MPL-2.0"},
		{"Neither the name of", "BSD-3-Clause"}, {"may not be used to endorse", "BSD-3-Clause"}, {"Redistribution and use in source and binary forms", "BSD-2-Clause"},
		{"Permission is hereby granted, free of charge", "MIT"}, {"Permission to use, copy, modify, and/or distribute", "ISC"},
	} {
		if strings.Contains(words, k.words) {
			return k.kind
		}
	}
	return "NOASSERTION"
}
