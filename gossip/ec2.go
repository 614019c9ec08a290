package gossip

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/awsquery"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// EC2 finds the running instances with a tag in an account and region. Credentials come from the default chain; the only permission needed
// is ec2:DescribeInstances.
type EC2 struct {
	TagKey, TagValue string
	Region           string // "" is the chain's
	Endpoint         string // "" is the region's
	Port             int
}

// String describes the finder for logs.
func (e EC2) String() string { return "EC2 instances tagged " + e.TagKey + "=" + e.TagValue }

// parseCloud parses "provider=aws key=value …". Values contain no blanks.
func parseCloud(s string) (Finder, error) {
	e := EC2{Port: DefaultPort}
	for _, word := range strings.Fields(s) {
		key, value, ok := strings.Cut(word, "=")
		if !ok || value == "" {
			return nil, fmt.Errorf("--join %q: invalid %q: want key=value: %w", s, word, fault.ErrConfig)
		}
		switch key {
		case "provider":
			if value != "aws" {
				return nil, fmt.Errorf("--join %q: unknown provider %q: want aws: %w", s, value, fault.ErrConfig)
			}
		case "tag_key":
			e.TagKey = value
		case "tag_value":
			e.TagValue = value
		case "region":
			e.Region = value
		case "endpoint":
			e.Endpoint = value
		case "port":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("--join %q: port %q: %w", s, value, fault.ErrConfig)
			}
			e.Port = int(n)
		default:
			return nil, fmt.Errorf("--join %q: unknown key %q: want provider, tag_key, tag_value, region, endpoint or port: %w", s, key, fault.ErrConfig)
		}
	}
	if e.TagKey == "" || e.TagValue == "" {
		return nil, fmt.Errorf("--join %q: want both tag_key and tag_value: %w", s, fault.ErrConfig)
	}
	return e, nil
}

// maxEC2Pages limits one search. A page of EC2's response has at most 1,000 instances.
const maxEC2Pages = 1000

// describeAnswer is the part of the DescribeInstances response that is read.
// Source: Amazon EC2 API Reference, version 2016-11-15.
type describeAnswer struct {
	Addresses []string `xml:"reservationSet>item>instancesSet>item>privateIpAddress"`
	NextToken string   `xml:"nextToken"`
}

// Find returns the private addresses of the running instances.
func (e EC2) Find(ctx context.Context) ([]string, error) {
	session, err := awsquery.Client{Service: "ec2", Version: "2016-11-15", Region: e.Region, RegionSetting: "region=… in --join", Endpoint: e.Endpoint}.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", e, err)
	}
	form := url.Values{
		"Filter.1.Name": {"tag:" + e.TagKey}, "Filter.1.Value.1": {e.TagValue},
		"Filter.2.Name": {"instance-state-name"}, "Filter.2.Value.1": {"running"},
	}
	var all []string
	for range maxEC2Pages {
		var page describeAnswer
		if err := session.Call(ctx, "DescribeInstances", form, &page); err != nil {
			return nil, fmt.Errorf("list %s: %w: %w", e, err, fault.ErrUnavailable)
		}
		for _, ip := range page.Addresses {
			all = append(all, net.JoinHostPort(ip, strconv.Itoa(e.Port)))
		}
		if page.NextToken == "" {
			return all, nil
		}
		form.Set("NextToken", page.NextToken)
	}
	return nil, fmt.Errorf("list %s: more than %d pages: %w", e, maxEC2Pages, fault.ErrUnavailable)
}
