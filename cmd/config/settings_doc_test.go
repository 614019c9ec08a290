package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon/sharing"
	"github.com/rfsd/rfsd/testing/configtest"
)

const (
	docBegin = "<!-- generated from cmd/config: RFSD_UPDATE=1 go test ./cmd/config -run SettingsDocument -->\n"
	docEnd   = "<!-- end of the generated part -->\n"
)

// documented is a setting and the commands that honour it.
type documented struct {
	config.Setting
	commands []string
}

// settingsByGroup returns the settings of both programs by their groups, in the order of their declaration. An option
// that belongs to one program alone is there once for each program.
func settingsByGroup() (groups []string, by map[string][]*documented) {
	by = map[string][]*documented{}
	seen := map[string]*documented{}
	for _, spec := range configtest.Specs() {
		program, _, _ := strings.Cut(spec.Path, " ")
		for _, s := range config.Settings(spec.Settings) {
			if s.Hidden {
				continue
			}
			key := s.Name
			if s.Variable() == "" {
				key = program + " " + key
			}
			if seen[key] == nil {
				seen[key] = &documented{Setting: s}
				if !slices.Contains(groups, s.Group) {
					groups = append(groups, s.Group)
				}
				by[s.Group] = append(by[s.Group], seen[key])
			}
			seen[key].commands = append(seen[key].commands, spec.Path)
		}
	}
	return groups, by
}

func scope(s config.Setting) string {
	switch sharing.ClassOf(s.Name, nil) {
	case sharing.Pace:
		return "fleet"
	case sharing.Signed:
		return "fleet, signed"
	case sharing.Own:
	}
	return "node"
}

// settingsTables are all settings as tables, one for each group.
func settingsTables() string {
	var b strings.Builder
	groups, by := settingsByGroup()
	code := func(s string) string {
		if s == "" {
			return ""
		}
		return "`" + s + "`"
	}
	cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n| option | variable | file | default | values | scope | what it does |\n|---|---|---|---|---|---|---|\n", strings.ToUpper(g[:1])+g[1:])
		for _, s := range by[g] {
			file, where := "", ""
			if s.Section != "" {
				file, where = "["+s.Section+"] "+s.Name, scope(s.Setting)
			}
			help := s.Help
			if s.Secret {
				help += " (secret: never shown or shared)"
			}
			fmt.Fprintf(&b, "| `--%s` | %s | %s | %s | %s | %s | %s |\n", s.Name, code(s.Variable()), code(file), code(s.Default), cell(s.Wants()), where, cell(help))
		}
	}
	b.WriteString("\n## Which command takes which groups\n\n| command | groups |\n|---|---|\n")
	for _, spec := range configtest.Specs() {
		var takes []string
		for _, s := range config.Settings(spec.Settings) {
			if !s.Hidden && !slices.Contains(takes, s.Group) {
				takes = append(takes, s.Group)
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", spec.Path, strings.Join(takes, ", "))
	}
	return b.String() + "\n"
}

// TestSettingsDocument: docs/SETTINGS.md holds the settings as they are declared.
func TestSettingsDocument(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "SETTINGS.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	begin, end := strings.Index(page, docBegin), strings.Index(page, docEnd)
	if begin < 0 || end < begin {
		t.Fatalf("%s has no generated part", path)
	}
	begin += len(docBegin)
	want := settingsTables()
	if page[begin:end] == want {
		return
	}
	if os.Getenv("RFSD_UPDATE") == "" {
		t.Fatalf("%s is not what is declared; RFSD_UPDATE=1 go test ./cmd/config -run SettingsDocument writes it", path)
	}
	if err := os.WriteFile(path, []byte(page[:begin]+want+page[end:]), 0o644); err != nil {
		t.Fatal(err)
	}
}
