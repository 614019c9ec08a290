package doc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The scalars of YAML 1.1 that are not strings, as resolved by SnakeYAML, the
// parser of all Elasticsearch and OpenSearch versions.
var (
	yamlBool  = regexp.MustCompile(`^(?:(yes|Yes|YES|true|True|TRUE|on|On|ON)|no|No|NO|false|False|FALSE|off|Off|OFF)$`)
	yamlNull  = regexp.MustCompile(`^(?:~|null|Null|NULL|)$`)
	yamlInt   = regexp.MustCompile(`^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)$`)
	yamlFloat = regexp.MustCompile(`^[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?)$`)
)

// Memory of a YAML parser: a node for each value, and copies of the text.
const (
	yamlValue  = 256 // bytes
	yamlCopies = 6
	// Limits of YAML sources: no application indexes more as YAML, and its tree would take the memory of many documents.
	maxYAML       = 16 << 20
	maxYAMLValues = 500_000
)

// yamlValues returns the maximum number of values in a YAML text.
func yamlValues(b []byte) (n int) {
	for _, c := range b {
		switch c {
		case ',', '\n', '\r', ':', '[', '{', '-', '?':
			n++
		}
	}
	return n
}

// appendYAML appends the first document of b, which must be an object, as JSON in one
// line, as Jackson parses YAML: keys are always strings, an alias is the name of its
// anchor as a string (so that aliases cannot expand), timestamps and base-60 numbers are strings,
// !!binary becomes base64. Decimal numbers keep their digits. It returns ErrTooLong if the result would be longer than limit, or
// if parsing would take more than twice as much memory.
func appendYAML(dst, b []byte, limit int) (out []byte, err error) {
	switch n := yamlValues(b); {
	case len(b) > maxYAML:
		return dst, fmt.Errorf("YAML of %d bytes; at most %d are read", len(b), maxYAML)
	case n > maxYAMLValues:
		return dst, fmt.Errorf("YAML of more than %d values", maxYAMLValues)
	case n*yamlValue+yamlCopies*len(b) > limit*2:
		return dst, ErrTooLong
	}
	defer func() {
		// The parser may panic on unexpected input.
		if r := recover(); r != nil {
			out, err = dst, fmt.Errorf("YAML: %v", r)
		}
	}()
	var n yaml.Node
	if err := yaml.Unmarshal(b, &n); err != nil {
		return dst, fmt.Errorf("YAML: %w", err)
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) != 1 || n.Content[0].Kind != yaml.MappingNode {
		return dst, errors.New("YAML: the document is not an object")
	}
	out, err = appendNode(dst, n.Content[0], 0)
	if errors.Is(err, ErrTooLong) || err == nil && len(out) > limit {
		return dst, ErrTooLong
	}
	if err != nil {
		return dst, fmt.Errorf("YAML: %w", err)
	}
	return out, nil
}

func appendNode(dst []byte, n *yaml.Node, depth int) ([]byte, error) {
	if depth > maxDepth {
		return dst, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	var err error
	switch n.Kind {
	case yaml.ScalarNode:
		return appendScalar(dst, n)
	case yaml.AliasNode:
		return AppendString(dst, []byte(n.Value)), nil
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, x := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendNode(dst, x, depth+1); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case yaml.MappingNode:
		dst = append(dst, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			if n.Content[i].Kind != yaml.ScalarNode {
				return dst, fmt.Errorf("line %d: a key that is not a scalar", n.Content[i].Line)
			}
			dst = append(AppendString(dst, []byte(n.Content[i].Value)), ':')
			if dst, err = appendNode(dst, n.Content[i+1], depth+1); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	}
	return dst, fmt.Errorf("line %d: unexpected kind of node", n.Line)
}

const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

func appendScalar(dst []byte, n *yaml.Node) ([]byte, error) {
	tag, value := "", n.Value
	if n.Style&yaml.TaggedStyle != 0 && n.Tag != "!" {
		tag = strings.TrimPrefix(n.ShortTag(), "!!")
	}
	plain := tag == "" && n.Style&quoted == 0
	switch {
	case (plain || tag == "bool") && yamlBool.MatchString(value):
		if yamlBool.FindStringSubmatch(value)[1] != "" {
			return append(dst, "true"...), nil
		}
		return append(dst, "false"...), nil
	case plain && yamlNull.MatchString(value), tag == "null":
		return append(dst, "null"...), nil
	case (plain || tag == "int" || tag == "float") && yamlInt.MatchString(value):
		return appendYAMLInt(dst, value)
	case (plain || tag == "float") && yamlFloat.MatchString(value):
		return appendYAMLFloat(dst, value), nil
	case tag == "binary":
		p, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(value), ""))
		if err != nil {
			return dst, fmt.Errorf("line %d: !!binary: %w", n.Line, err)
		}
		return appendBase64(dst, p), nil
	}
	return AppendString(dst, []byte(value)), nil
}

// appendYAMLInt appends a binary, octal (leading 0), hexadecimal or decimal number in decimal.
func appendYAMLInt(dst []byte, value string) ([]byte, error) {
	digits := strings.TrimPrefix(strings.ReplaceAll(value, "_", ""), "+")
	bare := strings.TrimPrefix(digits, "-")
	if bare == "0" || bare != "" && bare[0] != '0' {
		return append(dst, digits...), nil // the usual case, of any length
	}
	if len(bare) > maxBigNumber {
		return dst, fmt.Errorf("number of %d digits", len(bare))
	}
	x, ok := new(big.Int).SetString(digits, 0) // base by prefix: 0b, 0x, 0
	if !ok {
		return AppendString(dst, []byte(value)), nil
	}
	return x.Append(dst, 10), nil
}

// appendYAMLFloat appends a decimal number in the form of JSON: without
// underscores, plus sign and leading zeros, with digits on both sides of the point.
func appendYAMLFloat(dst []byte, value string) []byte {
	s := strings.TrimPrefix(strings.ReplaceAll(value, "_", ""), "+")
	if strings.HasPrefix(s, "-") {
		dst, s = append(dst, '-'), s[1:]
	}
	exponent := ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		s, exponent = s[:i], s[i:]
	}
	whole, fraction, point := strings.Cut(s, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	dst = append(dst, whole...)
	if point {
		if fraction == "" {
			fraction = "0"
		}
		dst = append(append(dst, '.'), fraction...)
	}
	return append(dst, exponent...)
}
