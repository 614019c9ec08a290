// Package rules applies a user's own changes to migrated objects: names of indices, settings,
// mappings and aliases, and documents. A file of rules defines them;
// documents without a matching rule stay unchanged, byte for byte.
package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// maxFile is the maximum size of a file of rules, in bytes.
const maxFile = 1 << 20

// Set is the content of one file of rules. It is immutable and safe for concurrent use.
type Set struct {
	digest    string
	names     []nameRule
	indices   []metadataRule
	templates []metadataRule
	documents []documentRule
}

// file is the TOML form of a file of rules.
type file struct {
	RenameIndex []struct {
		Match patterns `toml:"match"`
		To    string   `toml:"to"`
	} `toml:"rename-index"`
	Index    []metadataEntry `toml:"index"`
	Template []metadataEntry `toml:"template"`
	Document []documentEntry `toml:"document"`
}

type metadataEntry struct {
	Match  patterns `toml:"match"`
	Drop   []string `toml:"drop"`
	Rename []move   `toml:"rename"`
	Set    []struct {
		Path  string `toml:"path"`
		Value any    `toml:"value"`
	} `toml:"set"`
}

type move struct {
	From string `toml:"from"`
	To   string `toml:"to"`
}

type documentEntry struct {
	Match    patterns        `toml:"match"`
	Where    *conditionEntry `toml:"where"`
	LeaveOut bool            `toml:"leave-out"`
	Index    string          `toml:"index"`
	Rename   []move          `toml:"rename"`
	Drop     []string        `toml:"drop"`
	Copy     []move          `toml:"copy"`
}

// Load reads a file of rules. Errors are fault.ErrConfig and name file, line and key. Unknown keys
// are errors.
func Load(name string) (*Set, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("rules: %w: %w", err, fault.ErrConfig)
	}
	return Parse(name, b)
}

// Parse parses the content of a file of rules; name is for errors. See Load.
func Parse(name string, b []byte) (*Set, error) {
	if len(b) > maxFile {
		return nil, fmt.Errorf("rules %s: %d bytes are more than %d: %w", name, len(b), maxFile, fault.ErrConfig)
	}
	var f file
	md, err := toml.Decode(string(b), &f)
	if err != nil {
		return nil, fmt.Errorf("rules %s: %w: %w", name, err, fault.ErrConfig)
	}
	text := lines(strings.Split(string(b), "\n"))
	unknown := slices.DeleteFunc(md.Undecoded(), ofValue)
	if len(unknown) > 0 {
		return nil, fmt.Errorf("rules %s:%d: key %s is unknown: %w", name, text.ofKey(unknown[0]), unknown[0], fault.ErrConfig)
	}
	sum := sha256.Sum256(b)
	s := &Set{digest: hex.EncodeToString(sum[:])}
	if section, n, err := s.compile(f); err != nil {
		return nil, fmt.Errorf("rules %s:%d: %s: %w: %w", name, text.ofTable(section, n), section, err, fault.ErrConfig)
	}
	return s, nil
}

// ofValue reports whether a key lies within a value to set, where every key is allowed.
func ofValue(k toml.Key) bool {
	return len(k) > 3 && (k[0] == "index" || k[0] == "template") && k[1] == "set" && k[2] == "value"
}

// compile checks every rule and adds it to s. With an error it returns the section and the number of the rule, from 0.
func (s *Set) compile(f file) (section string, n int, err error) {
	for i, r := range f.RenameIndex {
		rule, err := newNameRule(r.Match, r.To)
		if err != nil {
			return "rename-index", i, err
		}
		s.names = append(s.names, rule)
	}
	for i, r := range f.Index {
		rule, err := newMetadataRule(r)
		if err != nil {
			return "index", i, err
		}
		s.indices = append(s.indices, rule)
	}
	for i, r := range f.Template {
		rule, err := newMetadataRule(r)
		if err != nil {
			return "template", i, err
		}
		s.templates = append(s.templates, rule)
	}
	for i, r := range f.Document {
		rule, err := newDocumentRule(r)
		if err != nil {
			return "document", i, err
		}
		s.documents = append(s.documents, rule)
	}
	return "", 0, nil
}

// Digest returns the SHA-256 of the file in hexadecimal; "" for a nil Set.
func (s *Set) Digest() string {
	if s == nil {
		return ""
	}
	return s.digest
}

// IndexName returns the target name of an index of the snapshot: from the
// first matching rule, else the name itself. s may be nil.
func (s *Set) IndexName(name string) string {
	if s == nil {
		return name
	}
	for _, r := range s.names {
		if to, ok := r.match.expand(name, r.to); ok {
			return to
		}
	}
	return name
}

// nameRule renames indices.
type nameRule struct {
	match matcher
	to    string
}

func newNameRule(match patterns, to string) (nameRule, error) {
	m, err := newMatcher(match)
	if err != nil {
		return nameRule{}, err
	}
	if to == "" {
		return nameRule{}, fmt.Errorf("to is missing")
	}
	return nameRule{match: m, to: to}, m.checkGroups(to)
}

// lines are the lines of a file of rules.
type lines []string

// ofTable returns the line, from 1, of the [[section]] with the number n, from 0; 0 if it does not exist.
func (l lines) ofTable(section string, n int) int {
	for i, line := range l {
		if header(line) == section {
			if n == 0 {
				return i + 1
			}
			n--
		}
	}
	return 0
}

// ofKey returns the line of a key, from 1; 0 if it is not found.
func (l lines) ofKey(key toml.Key) int {
	last, section, somewhere := key[len(key)-1], "", 0
	for i, line := range l {
		if h := header(line); h != "" {
			if section = h; h == strings.Join(key, ".") {
				return i + 1
			}
			continue
		}
		name, _, ok := strings.Cut(line, "=")
		if name = strings.Trim(strings.TrimSpace(name), `"'`); ok && strings.Join(append([]string{section}, name), ".") == strings.Join(key, ".") || name == strings.Join(key, ".") {
			return i + 1
		}
		if at := strings.Index(line, last); somewhere == 0 && at >= 0 && strings.HasPrefix(strings.TrimLeft(line[at+len(last):], `"' `), "=") {
			somewhere = i + 1
		}
	}
	return somewhere
}

// header returns the name in the header of a table, "" for other lines.
func header(line string) string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "[") {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimLeft(line, "["), "]")
	return strings.TrimSpace(name)
}
