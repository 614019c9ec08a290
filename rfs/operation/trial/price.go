package trial

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Price is the prices of requests, traffic and time, all in one currency. Missing prices count as 0.
type Price struct {
	Requests *float64 `toml:"s3-get-per-1000"`
	Egress   *float64 `toml:"egress-per-gb"` // of 10^9 bytes that leave the bucket
	Instance *float64 `toml:"instance-per-hour"`
}

const (
	maxPriceFile = 64 << 10 // bytes
	maxPrice     = 1e6      // per unit
)

// ReadPrice reads a file of prices. Errors are fault.ErrConfig.
func ReadPrice(path string) (*Price, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--price: %w: %w", err, fault.ErrConfig)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPriceFile+1))
	if err != nil {
		return nil, fmt.Errorf("--price %s: %w: %w", path, err, fault.ErrConfig)
	}
	p, err := ParsePrice(b)
	if err != nil {
		return nil, fmt.Errorf("--price %s: %w: %w", path, err, fault.ErrConfig)
	}
	return p, nil
}

// ParsePrice parses prices: TOML with at least one of the three keys.
func ParsePrice(b []byte) (*Price, error) {
	if len(b) > maxPriceFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxPriceFile)
	}
	p := &Price{}
	meta, err := toml.Decode(string(b), p)
	if err != nil {
		return nil, err
	}
	const keys = "s3-get-per-1000, egress-per-gb and instance-per-hour"
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		names := make([]string, 0, len(unknown))
		for _, k := range unknown {
			names = append(names, k.String())
		}
		slices.Sort(names)
		return nil, fmt.Errorf("unknown key %s: the keys are %s", strings.Join(names, ", "), keys)
	}
	all := []struct {
		key   string
		value *float64
	}{{"s3-get-per-1000", p.Requests}, {"egress-per-gb", p.Egress}, {"instance-per-hour", p.Instance}}
	given := false
	for _, x := range all {
		if x.value == nil {
			continue
		}
		given = true
		if v := *x.value; math.IsNaN(v) || v < 0 || v > maxPrice {
			return nil, fmt.Errorf("%s = %v: want a price from 0 to %.0f", x.key, v, maxPrice)
		}
	}
	if !given {
		return nil, errors.New("it has no price: the keys are " + keys)
	}
	return p, nil
}
